// Reads the servers from the page's address (?server=…&server=…) or from config.json beside it.
// Then adds a content security policy that allows connections only to these servers. An added
// policy can only restrict the one in the HTML.

import type { Pins, Profile } from "../../client/src/data.ts";

export interface Config {
  servers: string[];
  pins: Pins;
  /** Example values, for demonstrations. */
  example: Profile | null;
}

export async function readConfig(): Promise<Config> {
  const query = new URLSearchParams(location.search);
  const named = query.getAll("server");
  const config: Config = { servers: named, pins: {}, example: null };
  if (named.length > 0) return config;
  try {
    const response = await fetch("config.json", { cache: "no-store" });
    const found = response.ok ? await response.json() : {};
    const texts = (list: unknown): string[] => (Array.isArray(list) ? list.filter((item) => typeof item === "string") : []);
    config.servers = texts(found.servers);
    config.pins = found.pins ?? {};
    config.example = found.example ?? null;
  } catch {
    // Without the file the page asks the user for servers.
  }
  return config;
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
