// How the search stayed private: what each operator saw. The pictures come from a hash of each
// share, so that a picture of the screen reveals nothing.

import type { Answer, SentMessage } from "../../../client/src/data.ts";
import type { Deployment } from "../deployment.ts";
import { h } from "../dom.ts";
import type { Format } from "../format.ts";
import { drawing, QUESTION, tile } from "../steps/frame.ts";
import type { Texts } from "../texts/en.ts";

export async function privacy(answer: Answer, seen: SentMessage[], deployment: Deployment, texts: Texts, format: Format): Promise<HTMLElement> {
  const numbers = [...new Set(seen.map((sent) => sent.server))].sort((a, b) => a - b);
  const of = (number: number) => seen.filter((sent) => sent.server === number);
  const name = (number: number) => deployment.offer.operators.find((operator) => operator.index === number)?.name || texts.seen.operator(number);
  const views = await Promise.all(
    numbers.map(async (number) => {
      const text = new TextEncoder().encode(of(number)[0]?.begins ?? "");
      const hash = globalThis.crypto?.subtle ? new Uint8Array(await crypto.subtle.digest("SHA-256", text)) : new Uint8Array(0);
      return h("li", {}, hash.length > 0 && tile(hash), h("span", {}, h("b", {}, texts.seen.saw(name(number))), h("span", { class: "soft" }, texts.seen.noise)));
    }),
  );
  const whole = h("li", {}, drawing(QUESTION), h("span", {}, h("b", {}, texts.seen.only(texts.count(numbers.length))), h("span", { class: "soft" }, texts.seen.together)));
  const bytes = numbers.map((number) =>
    h(
      "div",
      { class: "small" },
      h("p", {}, h("b", {}, name(number)), ` ${of(number)[0]?.address ?? ""}`),
      of(number).map((sent, place) => h("p", {}, texts.seen.message(place + 1, format.bytes(sent.bytes), format.bytes(sent.payload)), h("code", { class: "bytes" }, sent.begins))),
    ),
  );
  return h(
    "section",
    { class: "panel screen seen", "aria-labelledby": "private" },
    h("h2", { id: "private" }, texts.seen.heading),
    h("p", {}, texts.seen.text),
    h("ul", { class: "views" }, views, whole),
    h(
      "details",
      {},
      h("summary", {}, texts.seen.show),
      h("p", { class: "note" }, texts.seen.warn),
      bytes,
      h("p", { class: "small soft" }, texts.seen.traffic(format.bytes(answer.bytes_up), format.bytes(answer.bytes_down), answer.scheme)),
    ),
  );
}
