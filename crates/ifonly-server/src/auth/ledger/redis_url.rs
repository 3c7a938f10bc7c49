//! The parts of a Redis URL: `redis://[user][:password]@host[:port][/database]`, `rediss://` with
//! TLS, `valkey` for `redis`, and `redis+unix:///path[?database=N&user=…&password=…]` for a Unix
//! socket.

/// A parsed Redis URL.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RedisUrl {
    pub(crate) endpoint: RedisEndpoint,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
}

/// The address of a Redis server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RedisEndpoint {
    Host { host: String, port: u16, tls: bool },
    Socket(String),
}

impl std::fmt::Display for RedisUrl {
    /// Without user and password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.endpoint {
            RedisEndpoint::Host { host, port, tls } => {
                let (scheme, colon) = (if *tls { "rediss" } else { "redis" }, host.contains(':'));
                let (open, close) = if colon { ("[", "]") } else { ("", "") };
                write!(f, "{scheme}://{open}{host}{close}:{port}/{}", self.database)
            }
            RedisEndpoint::Socket(path) => write!(f, "redis+unix://{path}"),
        }
    }
}

impl RedisUrl {
    /// Parses a URL; `None` if it is invalid.
    pub(crate) fn parse(url: &str) -> Option<RedisUrl> {
        let (scheme, rest) = url.split_once("://")?;
        if scheme == "redis+unix" {
            return RedisUrl::socket(rest);
        }
        let tls = matches!(scheme, "rediss" | "valkeys");
        if rest.contains(['?', '#']) {
            return None;
        }
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        let (host, port) = match address.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => address.split_at(address.find(':').unwrap_or(address.len())),
        };
        let port = if port.is_empty() { 6379 } else { port.strip_prefix(':')?.parse().ok()? };
        if host.is_empty() {
            return None;
        }
        Some(RedisUrl {
            endpoint: RedisEndpoint::Host { host: host.into(), port, tls },
            user: non_empty(decoded(user)?),
            password: non_empty(decoded(password)?),
            database: if database.is_empty() { 0 } else { database.parse().ok()? },
        })
    }

    fn socket(rest: &str) -> Option<RedisUrl> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = RedisUrl {
            endpoint: RedisEndpoint::Socket(non_empty(decoded(path)?)?),
            user: None,
            password: None,
            database: 0,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=')?;
            let value = decoded(value)?;
            match key {
                "database" | "db" => url.database = value.parse().ok()?,
                "user" => url.user = non_empty(value),
                "password" | "pass" => url.password = non_empty(value),
                _ => return None,
            }
        }
        Some(url)
    }
}

fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Percent-decodes a text; `None` if it is invalid.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = vec![];
    let mut parts = text.split('%');
    bytes.extend(parts.next()?.as_bytes());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_and_displayed_without_passwords() {
        let read = |text: &str| {
            let url = RedisUrl::parse(text)?;
            let shown = url.to_string();
            Some((shown, url.user.unwrap_or_default(), url.password.unwrap_or_default()))
        };
        let is = |shown: &str, user: &str, password: &str| Some((shown.into(), user.into(), password.into()));
        assert_eq!(read("redis://h"), is("redis://h:6379/0", "", ""));
        assert_eq!(read("valkeys://u:p%40%2f@h:1/3"), is("rediss://h:1/3", "u", "p@/"));
        assert_eq!(read("rediss://:p@p@[::1]:7/"), is("rediss://[::1]:7/0", "", "p@p"));
        assert_eq!(read("redis+unix:///tmp/a%20b?db=2&pass=x"), is("redis+unix:///tmp/a b", "", "x"));
        for wrong in [
            "redis://",
            "redis://h:x",
            "redis://h/x",
            "redis://[::1",
            "redis://a:%zz@h",
            "redis://a:%é@h",
            "redis://h?x=1",
            "redis+unix://",
            "redis+unix:///a?x=1",
            "x",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
