// Making elements. Texts are always text nodes: nothing from a server or a person is ever read as HTML.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;

const SVG = "http://www.w3.org/2000/svg";

function fill<E extends Element>(element: E, attributes: Attributes, children: (Child | Child[])[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) if (child) element.append(child);
  return element;
}

/** An element; attributes that are functions listen. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: (Child | Child[])[]) {
  return fill(document.createElement(tag), attributes, children);
}

/** An element of a picture. */
export function svg(tag: string, attributes: Attributes = {}, ...children: (Child | Child[])[]) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

let last = 0;
/** A name for labels and descriptions to point to. */
export const unique = (stem: string) => `${stem}-${++last}`;

/** A saved file, made here. */
export function save(name: string, text: string) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  h("a", { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}
