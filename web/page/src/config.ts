// Reads config.json beside the page. The page's address (?server=…&server=…) names servers only if
// that file names none: a link must not replace the servers or the pins that the host has chosen.
// Then adds a content security policy that allows connections only to these servers. An added
// policy can only restrict the one in the HTML.

import type { Pins, Profile } from "../../client/src/data.ts";

export interface Config {
  servers: string[];
  pins: Pins;
  /** Example values, for demonstrations. */
  example: Profile | null;
  /** Who hosts this page, if the host says so. */
  host: string | null;
  /** Who made the decisions, if the host says so. */
  institution: string | null;
}

export const NO_CONFIG: Config = { servers: [], pins: {}, example: null, host: null, institution: null };

/** The configuration. Throws if the file exists but cannot be read: its pins would be lost. */
export async function readConfig(): Promise<Config> {
  const response = await fetch("config.json", { cache: "no-store" });
  if (!response.ok && response.status !== 404) throw new Error(`config.json: HTTP ${response.status}`);
  const found = response.ok ? await response.json() : {};
  const texts = (list: unknown): string[] => (Array.isArray(list) ? list.filter((item) => typeof item === "string") : []);
  const name = (value: unknown) => (typeof value === "string" && value.trim() !== "" ? value : null);
  const configured = texts(found.servers);
  const named = new URLSearchParams(location.search).getAll("server");
  return {
    servers: configured.length > 0 ? configured : named,
    pins: found.pins ?? {},
    example: found.example ?? null,
    host: name(found.host),
    institution: name(found.institution),
  };
}

/** Restricts this page and its workers to these addresses. Returns false if one is invalid. */
export function restrictConnections(servers: string[]): boolean {
  const sources: string[] = [];
  for (const server of servers) {
    try {
      const { origin, pathname, protocol } = new URL(server);
      if (protocol !== "https:" && protocol !== "http:") return false;
      const folder = pathname.endsWith("/") ? pathname : `${pathname}/`;
      sources.push(folder === "/" ? origin : origin + encodeURI(folder).replaceAll(/[;,]/g, encodeURIComponent));
    } catch {
      return false;
    }
  }
  const meta = document.createElement("meta");
  meta.httpEquiv = "Content-Security-Policy";
  meta.content = `connect-src ${sources.join(" ") || "'none'"}`;
  document.head.append(meta);
  return true;
}
