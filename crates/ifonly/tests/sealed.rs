//! Sealed searches: the same answers as brute force, and traffic that says nothing.

use ifonly::{Bundle, Client, InProcess, Pins, Values, WishList};
use ifonly_algebra::random::{Random, SeededRandom};
use ifonly_values::manifest::{Contents, Manifest};
use ifonly_values::schema::{Feature, Kind, Scale, Schema, Value};

/// Random whole numbers in some columns, at three servers with the sealed search alone.
struct World {
    columns: usize,
    range: i64,
    rows: Vec<Vec<i64>>,
    client: Client,
}

fn name(column: usize) -> String {
    format!("column {column}")
}

impl World {
    fn make(columns: usize, range: i64, count: usize, random: &mut SeededRandom) -> World {
        let kind = Kind::from(Scale::whole_numbers(0, range).unwrap());
        let features = (0..columns).map(|column| Feature::new(name(column), kind.clone())).collect();
        let schema = Schema::new(features).unwrap();
        let mut draw = || random.below(range as u64 + 1) as i64;
        let rows: Vec<Vec<i64>> = (0..count).map(|_| (0..columns).map(|_| draw()).collect()).collect();
        let texts: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(i64::to_string).collect()).collect();
        let bundle = Bundle::of_values(&schema, &texts, |schema, rows, length| {
            let mut contents = Contents::new("random", schema, rows, length, 3);
            contents.terms.top_limit = 4;
            contents.offer_all();
            contents.schemes.retain(|offer| offer.name == "sealed");
            Manifest::new(Contents { default_scheme: "sealed".into(), ..contents })
        });
        let servers = InProcess::servers(&bundle.unwrap()).unwrap();
        let client = block_on(Client::connect(servers, &Pins::default())).unwrap();
        World { columns, range, rows, client }
    }

    /// Squared distances of the rows that qualify, the nearest first.
    fn brute_force(&self, own: &[i64], qualifies: impl Fn(&[i64]) -> bool) -> Vec<i64> {
        let rows = self.rows.iter().filter(|row| qualifies(row));
        let cost = |row: &Vec<i64>| own.iter().zip(row).map(|(a, b)| (a - b).pow(2)).sum();
        let mut costs: Vec<i64> = rows.map(cost).collect();
        costs.sort_unstable();
        costs
    }

    fn ask(&self, own: &[i64], wishes: &WishList) -> ifonly::Answer {
        let values: Values = own.iter().enumerate().map(|(k, &v)| (name(k), Value::Number(v as f64))).collect();
        block_on(self.client.ask(&values, wishes)).unwrap()
    }

    fn distance(&self, own: &[i64], record: &[(String, Value)]) -> i64 {
        let theirs = record.iter().map(|(_, value)| match value {
            Value::Number(number) => *number as i64,
            Value::Text(text) => text.parse().unwrap(),
        });
        own.iter().zip(theirs).map(|(a, b)| (a - b).pow(2)).sum()
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn answers_equal_brute_force_with_ties_wishes_and_nobody_at_all() {
    let mut random = SeededRandom::new(13);
    let (mut nobody, mut asked) = (0, 0);
    // Row counts around powers of two, few levels so that ties are common, one column and several.
    for (columns, range, count) in [
        (1, 1, 1),
        (1, 3, 2),
        (2, 2, 3),
        (3, 2, 7),
        (3, 3, 8),
        (2, 9, 9),
        (4, 2, 63),
        (3, 5, 64),
        (3, 5, 65),
        (11, 4, 130),
    ] {
        let world = World::make(columns, range, count, &mut random);
        for _ in 0..12 {
            let own: Vec<i64> = (0..columns).map(|_| random.below(range as u64 + 1) as i64).collect();
            let kinds: Vec<u64> = (0..columns).map(|_| random.below(5)).collect();
            let of = |kind: u64| (0..columns).filter(|&k| kinds[k] == kind).map(name).collect::<Vec<_>>();
            let wishes = WishList {
                immutable: of(0),
                only_up: of(1),
                only_down: of(2),
                top: 1 + random.below(4) as usize,
                ..WishList::default()
            };
            let costs = world.brute_force(&own, |row| {
                (0..columns).all(|k| match kinds[k] {
                    0 => row[k] == own[k],
                    1 => row[k] >= own[k],
                    2 => row[k] <= own[k],
                    _ => true,
                })
            });
            let answer = world.ask(&own, &wishes);
            let found: Vec<i64> = answer.found.iter().map(|near| world.distance(&own, &near.record)).collect();
            assert_eq!(found, costs[..costs.len().min(wishes.top)], "{columns} columns, {count} rows");
            assert_eq!(answer.qualifying, None, "how many qualify is not told");
            nobody += usize::from(costs.is_empty());
            asked += 1;
        }
        assert_eq!((world.columns, world.range), (columns, range));
    }
    assert!(nobody > 5 && asked - nobody > 50, "both kinds must occur: {nobody} of {asked}");
}

#[test]
fn traffic_is_the_same_whoever_asks_and_however_many_rows_there_are() {
    let mut random = SeededRandom::new(14);
    let mut seen = vec![];
    for count in [2, 1000] {
        let world = World::make(3, 9, count, &mut random);
        let impossible = WishList { immutable: vec![name(0), name(1), name(2)], ..WishList::default() };
        for wishes in [WishList::default(), impossible] {
            for own in [vec![0, 0, 0], vec![9, 9, 9], world.rows[0].clone()] {
                seen.push(world.ask(&own, &wishes).traffic);
            }
        }
    }
    // Records are as long as the longest of their bundle, and these have one digit everywhere.
    assert!(seen.iter().all(|traffic| *traffic == seen[0]), "{seen:?}");
    assert!(seen[0].up + seen[0].down < 40_000);
}
