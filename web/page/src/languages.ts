// The languages of the page. A visitor loads the texts of one; those of another are loaded when it
// is chosen. The hashes are part of this script, so a changed file of texts does not run.

import type { Language } from "./input/readings.ts";
import type { Texts } from "./texts/en.ts";

declare const TEXTS: Record<Language, { name: string; integrity: string }>;
declare global {
  var ifonlyTexts: Partial<Record<Language, Texts>> | undefined;
}

/** The languages by their own names. */
export const LANGUAGES: [Language, string][] = [
  ["en", "English"],
  ["de", "Deutsch"],
];

/** The texts of a language. */
export async function load(language: Language): Promise<Texts> {
  const known = globalThis.ifonlyTexts?.[language];
  if (known) return known;
  const script = document.createElement("script");
  Object.assign(script, { src: TEXTS[language].name, integrity: TEXTS[language].integrity });
  await new Promise((done, fail) => {
    script.addEventListener("load", done);
    script.addEventListener("error", () => fail(new Error(`${TEXTS[language].name} could not be loaded`)));
    document.head.append(script);
  });
  const texts = globalThis.ifonlyTexts?.[language];
  if (!texts) throw new Error(`${TEXTS[language].name} has no texts`);
  return texts;
}

/** The language of `?lang=de`, or else of the browser. */
export function pick(): Language {
  const asked = new URLSearchParams(location.search).get("lang") ?? navigator.language;
  return asked.slice(0, 2).toLowerCase() === "de" ? "de" : "en";
}
