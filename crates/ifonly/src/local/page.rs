//! The files of the web page: finds the output of `web/build`, adds the servers, and writes the
//! files to a directory or serves them from memory. Released programs contain these files (the
//! feature `page`).
//!
//! `config.json` names the servers. The content security policy of `index.html` forbids connections
//! to other hosts. All other bytes are those of the built page, so that a user can compare them
//! with the published page.

use crate::cli::exit::CommandError;
use ifonly_client::Pins;
use ifonly_client::transport::http::{HttpServer, TlsTrust};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The command that builds the page.
const BUILD: &str = "web/build";
/// The connections that the policy of the built page allows before the servers are known;
/// `web/page/src/index.html` has the same text.
const ANY_SERVER: &str = "connect-src 'self' https: http://127.0.0.1:* http://localhost:* http://[::1]:*";
/// A directory with more bytes is not the page.
const MAX_BYTES: u64 = 64 << 20;

/// What the page says about a deployment, besides its manifest.
#[derive(Debug, Default)]
pub(crate) struct PageTexts {
    /// Who hosts the page.
    pub(crate) host: Option<String>,
    /// Who made the decisions.
    pub(crate) institution: Option<String>,
    /// Values to fill in, for demonstrations.
    pub(crate) example: Option<serde_json::Value>,
}

/// All files of the page by name.
#[derive(Clone)]
pub(crate) struct Page {
    files: BTreeMap<String, Vec<u8>>,
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.files.keys()).finish()
    }
}

impl Page {
    /// Reads the built page from a directory. Without a directory, it takes the page that the
    /// program contains, or looks beside the program and in the workspace around the program or
    /// the current directory.
    pub(crate) fn find(given: Option<&Path>) -> Result<Page, CommandError> {
        let directory = match (given, embedded()) {
            (Some(directory), _) => directory.to_owned(),
            (None, Some(page)) => return Page::unpack(page).map_err(CommandError::Machine),
            (None, None) => default_directory().ok_or_else(|| {
                CommandError::Input(format!(
                    "this program was compiled without the page; released programs contain it. Run {BUILD} in the sources, or name the directory of a built page with --page-dir"
                ))
            })?,
        };
        Page::read(&directory).map_err(|error| {
            CommandError::Input(format!("{}: {error}; {BUILD} builds the page in web/page/dist", directory.display()))
        })
    }

    /// Reads the archive that `web/bundle.mjs` writes: a line of JSON with the names and lengths of
    /// the files, then their bytes.
    fn unpack(archive: &[u8]) -> Result<Page, String> {
        let damaged = || "the archive of the page is damaged".to_owned();
        let end = archive.iter().position(|&byte| byte == b'\n').ok_or_else(damaged)?;
        let index: Vec<(String, usize)> = serde_json::from_slice(&archive[..end]).map_err(|_| damaged())?;
        let mut rest = &archive[end + 1..];
        let mut files = BTreeMap::new();
        for (name, length) in index {
            let (bytes, after) = rest.split_at_checked(length).ok_or_else(damaged)?;
            files.insert(name, bytes.to_vec());
            rest = after;
        }
        if rest.is_empty() { Ok(Page { files }) } else { Err(damaged()) }
    }

    fn read(directory: &Path) -> Result<Page, String> {
        let (mut files, mut bytes) = (BTreeMap::new(), 0);
        for entry in std::fs::read_dir(directory).map_err(|error| error.to_string())? {
            let path = entry.map_err(|error| error.to_string())?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let known = std::fs::metadata(&path).map_err(|error| format!("{name}: {error}"))?;
            bytes += known.len();
            if bytes > MAX_BYTES {
                return Err("the directory is too large to be the page".into());
            }
            if known.is_file() {
                let read = std::fs::read(&path).map_err(|error| format!("{name}: {error}"))?;
                files.insert(name.to_owned(), read);
            }
        }
        if files.contains_key("index.html") {
            Ok(Page { files })
        } else {
            Err("the directory has no index.html".into())
        }
    }

    /// The same page for these servers; its policy allows no other connections.
    pub(crate) fn configured(
        mut self,
        servers: &[String],
        pins: &Pins,
        about: &PageTexts,
    ) -> Result<Page, CommandError> {
        pins.check_hosts(servers)?;
        let trust = TlsTrust::system()?;
        for url in servers {
            HttpServer::new(url, &trust)?;
            // Semicolons separate the entries of the policy.
            if !url.bytes().all(|byte| byte.is_ascii_graphic() && !b";,'\"<>&".contains(&byte)) {
                return Err(CommandError::Input(format!(
                    "--server {url}: the address has characters that a content security policy cannot contain"
                )));
            }
        }
        let html = self.files.get("index.html").map(|html| String::from_utf8_lossy(html).into_owned());
        let html = html.filter(|html| html.matches(ANY_SERVER).count() == 1).ok_or_else(|| {
            CommandError::Input(format!(
                "index.html is not the built page of this version, or it is already configured; run {BUILD}"
            ))
        })?;
        let html = html.replace(ANY_SERVER, &format!("connect-src 'self' {}", sources(servers).join(" ")));
        self.files.insert("index.html".into(), html.into_bytes());
        let mut config = serde_json::json!({ "servers": servers, "pins": pins });
        let optional = [
            ("host", about.host.clone().map(Into::into)),
            ("institution", about.institution.clone().map(Into::into)),
            ("example", about.example.clone()),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                config[name] = value;
            }
        }
        self.files.insert("config.json".into(), format!("{config}\n").into_bytes());
        Ok(self)
    }

    /// Writes all files into a new or empty directory.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), CommandError> {
        let failed = |path: &Path, error: std::io::Error| CommandError::Machine(format!("{}: {error}", path.display()));
        if std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(CommandError::Input(format!("{} is not empty; name a new directory", directory.display())));
        }
        std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
        for (name, bytes) in &self.files {
            let path = directory.join(name);
            std::fs::write(&path, bytes).map_err(|error| failed(&path, error))?;
        }
        Ok(())
    }
}

/// The addresses as sources of a content security policy: a path with everything below it, or a
/// whole host.
fn sources(servers: &[String]) -> Vec<String> {
    let source = |url: &String| {
        let url = url.trim_end_matches('/');
        match url.splitn(4, '/').nth(3) {
            Some(_) => format!("{url}/"),
            None => url.to_owned(),
        }
    };
    servers.iter().map(source).collect()
}

/// The page that the program contains.
#[cfg(feature = "page")]
fn embedded() -> Option<&'static [u8]> {
    Some(include_bytes!("../../../../web/page/dist.archive"))
}

/// Without the feature, a program needs neither Node nor WebAssembly to be compiled.
#[cfg(not(feature = "page"))]
fn embedded() -> Option<&'static [u8]> {
    None
}

/// The directory `page` beside the program, or `web/page/dist` in a directory above the program or
/// the current directory.
fn default_directory() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let current = std::env::current_dir().unwrap_or_default();
    let beside = program.parent().map(|directory| directory.join("page"));
    let above = program.ancestors().chain(current.ancestors());
    let above = above.map(|directory| directory.join("web").join("page").join("dist"));
    beside.into_iter().chain(above).find(|directory| directory.join("index.html").is_file())
}

#[cfg(feature = "serve")]
pub(crate) use host::host;

#[cfg(feature = "serve")]
mod host {
    //! An HTTP server for the files of the page.

    use super::Page;
    use axum::Router;
    use axum::body::Body;
    use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
    use axum::response::{IntoResponse, Response};
    use std::sync::Arc;

    /// Serves the page until the process ends.
    pub(crate) async fn host(listener: tokio::net::TcpListener, page: Page) -> std::io::Result<()> {
        let page = Arc::new(page);
        let router = Router::new().fallback(move |method: Method, uri: Uri| {
            let page = page.clone();
            async move { respond(&page, &method, &uri) }
        });
        axum::serve(listener, router).await
    }

    fn respond(page: &Page, method: &Method, uri: &Uri) -> Response {
        if method != Method::GET && method != Method::HEAD {
            return StatusCode::METHOD_NOT_ALLOWED.into_response();
        }
        let name = match uri.path().trim_start_matches('/') {
            "" => "index.html",
            name => name,
        };
        let Some(bytes) = page.files.get(name) else { return StatusCode::NOT_FOUND.into_response() };
        let mut headers = HeaderMap::new();
        let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
        set(header::CONTENT_TYPE, content_type(name));
        set(header::CACHE_CONTROL, "no-store");
        set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        set(header::REFERRER_POLICY, "no-referrer");
        set(header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'");
        (headers, Body::from(bytes.clone())).into_response()
    }

    fn content_type(name: &str) -> &'static str {
        match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("json") => "application/json",
            Some("svg") => "image/svg+xml",
            Some("wasm") => "application/wasm",
            _ => "text/plain; charset=utf-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built() -> Page {
        let html = format!("<meta content=\"default-src 'none'; {ANY_SERVER}; base-uri 'none'\" />");
        Page { files: [("index.html".to_owned(), html.into_bytes()), ("page-1.js".to_owned(), b"x".to_vec())].into() }
    }

    #[test]
    fn a_configured_page_may_connect_only_to_its_servers() {
        let servers = ["https://a.example".to_owned(), "https://b.example:8443/x/".to_owned()];
        let texts = PageTexts { host: Some("Consumer Advice".into()), ..PageTexts::default() };
        let none = PageTexts::default();
        let page = built().configured(&servers, &Pins { threshold: Some(1), ..Pins::default() }, &texts).unwrap();
        let html = String::from_utf8(page.files["index.html"].clone()).unwrap();
        assert!(html.contains("; connect-src 'self' https://a.example https://b.example:8443/x/; "), "{html}");
        let config: serde_json::Value = serde_json::from_slice(&page.files["config.json"]).unwrap();
        assert_eq!(config["servers"][1], "https://b.example:8443/x/");
        assert_eq!(config["pins"]["threshold"], 1);
        assert_eq!((&config["host"], config.get("institution")), (&"Consumer Advice".into(), None));
        assert!(page.clone().configured(&servers, &Pins::default(), &none).is_err(), "the page is already configured");
        for url in ["https://a.example/;script-src", "ftp://a.example", "https://a.example/'x'", "http://a.example"] {
            assert!(built().configured(&[url.to_owned()], &Pins::default(), &none).is_err(), "{url}");
        }
    }

    #[test]
    fn an_archive_holds_all_files_and_a_damaged_one_is_refused() {
        let archive = b"[[\"a.js\",2],[\"index.html\",3]]\nxyabc";
        let page = Page::unpack(archive).unwrap();
        assert_eq!((&page.files["a.js"][..], &page.files["index.html"][..]), (&b"xy"[..], &b"abc"[..]));
        for damaged in [&archive[..archive.len() - 1], b"[]", b"[[\"a\",9]]\nx", b"[]\nx", b""] {
            assert!(Page::unpack(damaged).is_err(), "{damaged:?}");
        }
    }

    #[test]
    fn a_page_is_written_only_into_a_new_directory() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("page");
        built().write(&directory).unwrap();
        assert_eq!(Page::read(&directory).unwrap().files, built().files);
        assert!(built().write(&directory).is_err());
        assert!(Page::find(Some(parent.path())).unwrap_err().to_string().contains("web/build"));
    }
}
