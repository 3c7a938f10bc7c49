//! The files of the web page: finds the output of `web/build`, adds the servers, and writes the
//! files to a directory or serves them from memory.
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
    /// Reads the built page from a directory. Without a directory, it looks beside the program and
    /// in the workspace that the program was built in.
    pub(crate) fn find(given: Option<&Path>) -> Result<Page, CommandError> {
        let directory = match given {
            Some(directory) => directory.to_owned(),
            None => default_directory().ok_or_else(|| {
                CommandError::Input(format!(
                    "the page is not built; run {BUILD}, or name its directory with --page-dir"
                ))
            })?,
        };
        Page::read(&directory).map_err(|error| {
            CommandError::Input(format!("{}: {error}; {BUILD} builds the page in web/page/dist", directory.display()))
        })
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
        match files.contains_key("index.html") {
            true => Ok(Page { files }),
            false => Err("the directory has no index.html".into()),
        }
    }

    /// The same page for these servers; its policy allows no other connections.
    pub(crate) fn configured(
        mut self,
        servers: &[String],
        pins: &Pins,
        example: Option<serde_json::Value>,
    ) -> Result<Page, CommandError> {
        let trust = TlsTrust::system()?;
        for url in servers {
            HttpServer::new(url, &trust, None)?;
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
        if let Some(example) = example {
            config["example"] = example;
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

/// The directory `page` beside the program, or `web/page/dist` in a directory above it.
fn default_directory() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let beside = program.parent().map(|directory| directory.join("page"));
    let above = program.ancestors().map(|directory| directory.join("web").join("page").join("dist"));
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
        let page = built().configured(&servers, &Pins { threshold: Some(1), ..Pins::default() }, None).unwrap();
        let html = String::from_utf8(page.files["index.html"].clone()).unwrap();
        assert!(html.contains("; connect-src 'self' https://a.example https://b.example:8443/x/; "), "{html}");
        let config: serde_json::Value = serde_json::from_slice(&page.files["config.json"]).unwrap();
        assert_eq!(config["servers"][1], "https://b.example:8443/x/");
        assert_eq!(config["pins"]["threshold"], 1);
        assert!(page.clone().configured(&servers, &Pins::default(), None).is_err(), "the page is already configured");
        for url in ["https://a.example/;script-src", "ftp://a.example", "https://a.example/'x'", "http://a.example"] {
            assert!(built().configured(&[url.to_owned()], &Pins::default(), None).is_err(), "{url}");
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
