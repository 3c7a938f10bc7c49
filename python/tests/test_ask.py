"""Searches: one person or many, errors, interruption, results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from test_build import stopped_after

import ifonly

LOANS = pd.DataFrame(
    {
        "income": [2100, 900, 1800, 1200, 3000],
        "job": ["nurse", "baker", "nurse", "pilot", "<b>cook</b>"],
        "since": pd.to_datetime(["2020-01-01", "2021-05-01", "2019-03-01", "2022-01-01", "2018-01-01"]),
        "member": [True, False, True, True, False],
        "approved": ["yes", "no", "yes", "no", "yes"],
    }
)
ME = {"income": 900, "job": "baker", "since": "2021-05-01", "member": False}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ifonly.Deployment]:
    path = tmp_path_factory.mktemp("bundles") / "loans.bundle"
    ifonly.build(LOANS, path, accepted="approved", accept="yes", immutable=["member"])
    with ifonly.serve(path) as running:
        yield running


@pytest.fixture(scope="module")
def explainer(deployment: ifonly.Deployment) -> ifonly.Explainer:
    return deployment.explainer()


def test_one_person_in_every_type(explainer: ifonly.Explainer) -> None:
    frame = pd.DataFrame([ME]).assign(since=lambda table: pd.to_datetime(table.since))
    queries: list[Any] = [
        ME,
        [ME],
        pd.Series(ME),
        frame,
        frame.iloc[0],
        pl.DataFrame(frame),
        {**ME, "income": np.int64(900), "since": np.datetime64("2021-05-01T00:00:00"), "member": np.bool_(False)},
        {**ME, "income": 900.0, "since": pd.Timestamp("2021-05-01")},
    ]
    records = [explainer.generate_counterfactuals(query)[0].record for query in queries]
    assert all(record == records[0] for record in records), records
    assert records[0] is not None and records[0]["income"] == 2100


def test_results_are_tables_html_and_text(explainer: ifonly.Explainer) -> None:
    people = LOANS[LOANS.approved == "no"].set_index(pd.Index(["ann", "bob"]))
    results = explainer.generate_counterfactuals(people, total_CFs=2, only_up=["income"])
    assert len(results) == 2 and [answer.label for answer in results] == ["ann", "bob"]
    table = results.to_dataframe()
    assert table.index.names == ["person", "rank"] and list(table.loc["ann"].index) == [1, 2]
    assert table.since.dtype == LOANS.since.dtype and table.member.dtype == bool and table.income.dtype == LOANS.income.dtype
    assert (table.cost.loc["ann"].diff().dropna() >= 0).all()
    changes = results.visualize_as_dataframe(show_only_changes=True)
    assert changes.loc[("ann", 0), "income"] == "900"
    nearest = results[0].counterfactuals[0]
    unchanged = set(nearest.record) - {change.feature for change in nearest.changes}
    assert all(changes.loc[("ann", 1), name] == "-" for name in unchanged)
    page = results._repr_html_()
    assert "ann" in page and "→" in page and "<b>cook" not in page
    assert json.loads(results.to_json())[0] == results[0].document
    assert json.loads(results[:1].to_json()) == results[0].document
    assert "income" in repr(results[0])
    polars = explainer.generate_counterfactuals(pl.DataFrame(people.reset_index(drop=True)), total_CFs=2)
    assert isinstance(polars.to_dataframe(), pl.DataFrame) and isinstance(polars.visualize_as_dataframe(), pl.DataFrame)


def test_no_matching_row_is_an_answer(explainer: ifonly.Explainer) -> None:
    results = explainer.generate_counterfactuals(ME, immutable=["income", "job"])
    assert not results[0] and results[0].record is None and len(results.to_dataframe()) == 0
    assert "No row matches" in results._repr_html_() and "no row matches" in repr(results[0])
    assert len(results.visualize_as_dataframe()) == 1


def test_a_plot_shows_every_change(explainer: ifonly.Explainer) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    results = explainer.generate_counterfactuals(ME, total_CFs=3)
    axes = results.plot()
    names = {change.feature for one in results[0].counterfactuals for change in one.changes}
    assert {label.get_text() for label in axes.get_yticklabels()} == names
    axes.figure.savefig("plot.png")
    explainer.generate_counterfactuals(ME, immutable=["income", "job"]).plot()


def test_suggested_and_wished_constraints_hold(explainer: ifonly.Explainer) -> None:
    suggested = explainer.generate_counterfactuals(ME, suggested_immutable=True)[0].record
    assert suggested is not None and suggested["member"] == "false"
    found = explainer.generate_counterfactuals(ME, permitted_range={"income": [None, 2500], "job": ["nurse"]}, feature_weights="inverse_mad")
    assert found[0].record is not None and found[0].record["job"] == "nurse"
    assert found[0].wishes == ["income is 2500 or less", "job is one of nurse"]
    assert "member" in explainer.profile() and explainer.manifest["rows"] == 3 and len(explainer.digest) == 64


@pytest.mark.parametrize(
    ("person", "wishes", "complaint"),
    [
        ({**ME, "incme": 1, "income": None}, {}, "no value for income"),
        ({"income": 900}, {}, "no value for"),
        ({**ME, "income": float("nan")}, {}, "no value for income"),
        ({**ME, "income": "many"}, {}, "income"),
        ({**ME, "income": [1, 2]}, {}, "income: a list is not"),
        ({**ME, "job": "king"}, {}, "king"),
        (ME, {"immutable": ["jbo"]}, "job"),
        (ME, {"only_up": ["job"]}, "job"),
        (ME, {"permitted_range": {"income": [1, 2, 3]}}, "write [low, high]"),
        (ME, {"permitted_range": {"income": "1-2"}}, "give [low, high]"),
        (ME, {"permitted_range": {"job": ["king"]}}, "king"),
        (ME, {"permitted_values": {"job": [None]}}, "missing"),
        (ME, {"feature_weights": {"income": "much"}}, "'much' is not a number"),
        (ME, {"feature_weights": {"income": 1e9}}, "1,000"),
        (ME, {"features_to_vary": []}, "no feature could change"),
        (ME, {"cost": {"income": "l3"}}, "cost of income"),
        (ME, {"cost": {"income": {"upp": 3}}}, "cost of income"),
        (ME, {"cost_table": {"income": {"x": 1}}}, "income"),
        (ME, {"metric": "l7"}, "metric"),
        (ME, {"max_changes": -1}, "max_changes"),
        (ME, {"scheme": "gatedd"}, "gatedd"),
        (ME, {"total_CFs": 99}, "records can be fetched"),
    ],
)
def test_errors_name_the_cause(explainer: ifonly.Explainer, person: dict[str, Any], wishes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ifonly.InputError) as refused:
        explainer.generate_counterfactuals(person, **wishes)
    assert complaint in str(refused.value), str(refused.value)
    assert (refused.value.exit_code, refused.value.kind, refused.value.person) == (4, "input", 0)
    assert isinstance(refused.value, ValueError)


def test_an_error_names_the_person_and_keeps_the_other_results(explainer: ifonly.Explainer) -> None:
    with pytest.raises(ifonly.InputError, match="person 1: .*king") as refused:
        explainer.generate_counterfactuals([ME, {**ME, "job": "king"}, ME])
    assert refused.value.person == 1
    assert refused.value.results is not None and [answer.label for answer in refused.value.results] == [0, 2]


def test_invalid_queries_are_refused(explainer: ifonly.Explainer) -> None:
    assert len(explainer.generate_counterfactuals([])) == 0
    for query in ("me.csv", 7, [1, 2]):
        with pytest.raises(ifonly.InputError, match="query_instances"):
            explainer.generate_counterfactuals(query)


def test_servers_that_do_not_match_a_pin_are_refused(deployment: ifonly.Deployment, explainer: ifonly.Explainer) -> None:
    assert deployment.explainer(threshold=1, manifest=explainer.digest).digest == explainer.digest
    with pytest.raises(ifonly.IntegrityError, match="threshold"):
        deployment.explainer(threshold=2)
    with pytest.raises(ifonly.IntegrityError, match="manifest"):
        deployment.explainer(manifest="0" * 64)
    with pytest.raises(ifonly.ServersError) as refused:
        ifonly.Explainer(["http://127.0.0.1:9"], timeout=5)
    assert refused.value.exit_code == 5 and isinstance(refused.value, ConnectionError)
    with pytest.raises(ifonly.InputError, match="https"):
        ifonly.Explainer(["ftp://127.0.0.1"])
    with pytest.raises(ifonly.InputError, match="none of the servers has the address"):
        deployment.explainer(token={"https://other.example": "abc"})
    with pytest.raises(ifonly.ServersError):
        ifonly.Explainer(deployment.servers[:1]).generate_counterfactuals(ME)


def test_two_servers_with_one_host_are_refused() -> None:
    servers = ["https://a.invalid/one", "https://a.invalid/two"]
    with pytest.raises(ifonly.InputError, match="same host"):
        ifonly.Explainer(servers)
    with pytest.raises(ifonly.ServersError):
        ifonly.Explainer(servers, allow_same_host=True, timeout=1)


def test_errors_name_bundles_that_cannot_be_served(folder: Path) -> None:
    with pytest.raises(ifonly.InputError, match=r"nowhere\.bundle"):
        ifonly.serve("nowhere.bundle")
    ifonly.build(LOANS[["income", "job"]], "two.bundle")
    with pytest.raises(ifonly.InputError, match="for 2 servers"):
        ifonly.serve("two.bundle", servers=5)
    (folder / "two.bundle" / "rows").write_bytes(b"damaged")
    with pytest.raises(ifonly.InputError, match="rows"):
        ifonly.serve("two.bundle")


def test_three_servers_run_sealed_searches(folder: Path) -> None:
    ifonly.build(LOANS, "sealed.bundle", accepted="approved", accept="yes", servers=3)
    with ifonly.serve("sealed.bundle", servers=3) as deployment:
        answer = deployment.explainer().generate_counterfactuals(ME, only_up=["income"])[0]
    assert answer.document["scheme"] == "sealed" and answer.record is not None and answer.record["income"] == 2100


def test_stopped_servers_do_not_answer(folder: Path) -> None:
    assert len(ifonly.keygen("root.key").split("-")) == 8
    deployment = ifonly.serve(ifonly.build(LOANS[["income", "job"]], "two.bundle"), keys=["root.key"])
    explainer = deployment.explainer(timeout=5)
    assert explainer.generate_counterfactuals({"income": 900, "job": "baker"})[0]
    deployment.stop()
    deployment.stop()
    with pytest.raises(ifonly.ServersError):
        explainer.generate_counterfactuals({"income": 900, "job": "baker"})


def test_async_searches_give_the_same_and_do_not_block_the_loop(explainer: ifonly.Explainer) -> None:
    async def ask() -> tuple[list[ifonly.Counterfactuals], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        searches = [explainer.generate_counterfactuals_async([ME] * 5, only_up=["income"]) for _ in range(3)]
        results = await asyncio.gather(*searches)
        ticking.cancel()
        return results, ticks

    results, ticks = asyncio.run(ask())
    right = explainer.generate_counterfactuals(ME, only_up=["income"])[0].record
    assert ticks > 3 and all(answer.record == right for result in results for answer in result)

    async def invalid() -> None:
        await explainer.generate_counterfactuals_async([ME, {}])

    with pytest.raises(ifonly.InputError, match="person 1"):
        asyncio.run(invalid())

    async def cancelled() -> None:
        await asyncio.wait_for(explainer.generate_counterfactuals_async([ME] * 100_000), 0.2)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(cancelled())


def test_control_c_stops_a_batch_within_a_second(folder: Path) -> None:
    stopped_after(
        """
        import ifonly, pandas as pd
        table = pd.DataFrame({"age": range(20, 70), "job": ["nurse", "baker"] * 25})
        with ifonly.serve(ifonly.build(table, "jobs.bundle")) as deployment:
            explainer = deployment.explainer()
            print_go_on_progress()
            explainer.generate_counterfactuals([{"age": 30, "job": "baker"}] * 1_000_000)
        """
    )


def test_many_searches_do_not_increase_memory(explainer: ifonly.Explainer) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    def ask(people: int) -> int:
        results = explainer.generate_counterfactuals([ME] * people)
        assert len(results) == people
        del results
        return resident()

    ask(300)
    before = ask(300)
    after = ask(1000)
    assert after - before < 16 << 20, f"{before >> 20} MB, then {after >> 20} MB"


def test_fractions_are_numbers_whatever_the_separators_of_the_column(folder: Path) -> None:
    table = pd.DataFrame({"debt": ["1.500,25", "2,125", "3.000,5", "1,5"], "job": ["a", "b", "a", "b"]})
    with ifonly.serve(ifonly.build(table, "german.bundle")) as deployment:
        explainer = deployment.explainer()
        for me in ({"debt": 2.125, "job": "b"}, pd.DataFrame({"debt": [2.125], "job": ["b"]})):
            # Without a tolerance, which would make 1,5 as near as 2,125.
            found = explainer.generate_counterfactuals(me, tolerance={"*": 0})
            assert found[0].record == {"debt": "2,125", "job": "b"}
            assert found[0].cost == 0
        with pytest.raises(ifonly.InputError, match="set the same cost"):
            explainer.generate_counterfactuals(
                {"debt": 2.125, "job": "b"}, feature_weights={"debt": 2}, cost={"debt": {"up": 3}}
            )
        with pytest.raises(ifonly.InputError, match="is not a bound"):
            explainer.generate_counterfactuals(
                {"debt": 2.125, "job": "b"}, permitted_range={"debt": [float("nan"), 3]}
            )
