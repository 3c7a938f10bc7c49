//! The transport over HTTPS: TLS 1.3, the hybrid post-quantum key exchange preferred, and HTTP/2 if
//! the server supports it.
//!
//! Plain `http://` is allowed on loopback only, unless the caller allows it everywhere. An
//! eavesdropper on the links to more than T servers can combine the shares.

use crate::error::ClientError;
use crate::search::pacing::Clock;
use crate::transport::credential::Credential;
use crate::transport::endpoint::Endpoint;
use crate::transport::retry::{RetryPolicy, Retrying, TokioClock};
use crate::transport::{
    ChecksumVerifier, Exchange, ManifestResponse, ResponseSink, ServedManifest, ServerRequest, Transport,
    TransportError, TransportFuture, response,
};
use ::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use ::http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use ifonly_core::http_api;
use ifonly_values::manifest::MAX_JSON;
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tower::Service;

/// The trusted certificate authorities, and whether plain HTTP is allowed beyond loopback.
#[derive(Clone, Debug)]
pub struct TlsTrust {
    config: ClientConfig,
    plain_http: bool,
}

impl TlsTrust {
    /// The certificate authorities of the operating system.
    pub fn system() -> Result<TlsTrust, ClientError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        TlsTrust::with(roots)
    }

    /// Only the certificate authorities in a PEM text.
    pub fn pem(text: &[u8]) -> Result<TlsTrust, ClientError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(text) {
            let certificate = certificate.map_err(|error| ClientError::Certificates(error.to_string()))?;
            roots.add(certificate).map_err(|error| ClientError::Certificates(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(ClientError::Certificates("the PEM file contains no certificate".into()));
        }
        TlsTrust::with(roots)
    }

    /// Sets whether plain HTTP is allowed beyond loopback.
    pub fn plain_http(self, plain_http: bool) -> TlsTrust {
        TlsTrust { plain_http, ..self }
    }

    fn with(roots: RootCertStore) -> Result<TlsTrust, ClientError> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| ClientError::Certificates(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // A resumed session would show the server that two searches come from one user, even from
        // different addresses.
        config.resumption = Resumption::disabled();
        Ok(TlsTrust { config, plain_http: false })
    }
}

/// A server at a URL.
#[derive(Debug)]
pub struct HttpServer {
    base: String,
    token: Option<HeaderValue>,
    client: Client<CertificateRecorder, Full<Bytes>>,
    certificate_key: SeenKey,
}

/// A hash of the public key in the certificate that a server has shown.
type SeenKey = Arc<Mutex<Option<[u8; 32]>>>;
type Connector = HttpsConnector<HttpConnector>;
type Connection = <Connector as Service<Uri>>::Response;
type ConnectError = <Connector as Service<Uri>>::Error;

/// Opens connections and keeps a hash of the public key in the last certificate.
#[derive(Clone, Debug)]
struct CertificateRecorder {
    inner: Connector,
    seen: SeenKey,
}

impl Service<Uri> for CertificateRecorder {
    type Response = Connection;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Connection, ConnectError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, seen) = (self.inner.call(uri), self.seen.clone());
        Box::pin(async move {
            let connection = connecting.await?;
            if let MaybeHttpsStream::Https(stream) = &connection {
                let certificates = stream.inner().get_ref().1.peer_certificates().unwrap_or_default();
                *seen.lock().unwrap_or_else(PoisonError::into_inner) = certificates.first().and_then(key_hash);
            }
            Ok(connection)
        })
    }
}

/// A hash of the public key in a certificate. The key shows who answers: one owner can have several
/// certificates for one key.
fn key_hash(certificate: &CertificateDer<'_>) -> Option<[u8; 32]> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    Some(*blake3::hash(&parsed.subject_public_key_info()).as_bytes())
}

impl HttpServer {
    /// The server at an endpoint.
    pub fn new(endpoint: impl Into<Endpoint>, trust: &TlsTrust) -> Result<HttpServer, ClientError> {
        let Endpoint { url, token } = endpoint.into();
        let refuse = |reason| Err(ClientError::Url { url: url.clone(), reason });
        let Ok(uri) = url.parse::<Uri>() else { return refuse("it cannot be parsed; write https://host:port") };
        let Some(host) = uri.host() else { return refuse("it has no host; write https://host:port") };
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if trust.plain_http || response::is_loopback(host) => {}
            Some("http") => {
                return refuse("plain HTTP is allowed on this machine only; use https://, or set `plain_http`");
            }
            _ => return refuse("it must begin with https://"),
        }
        if uri.query().is_some() {
            return refuse("it has a query; write https://host:port");
        }
        let token = match token.map(|token| HeaderValue::from_str(&format!("Bearer {token}"))) {
            Some(Err(_)) => return refuse("its token has characters that are not allowed in an HTTP header"),
            Some(Ok(mut value)) => {
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        let mut sockets = HttpConnector::new();
        sockets.enforce_http(false);
        // Without this, the end of a message waits for the acknowledgement of its beginning, which
        // may take 40 ms.
        sockets.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(trust.config.clone())
            .https_or_http()
            .enable_http1()
            .enable_http2()
            .wrap_connector(sockets);
        let certificate_key = SeenKey::default();
        let connector = CertificateRecorder { inner: connector, seen: certificate_key.clone() };
        let client = Client::builder(TokioExecutor::new()).pool_idle_timeout(Duration::from_secs(30)).build(connector);
        Ok(HttpServer { base: url.trim_end_matches('/').into(), token, client, certificate_key })
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        credential: Option<Credential>,
    ) -> Result<Response<Incoming>, TransportError> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        if let Some(credential) = credential {
            request = request.header(credential.header(), credential.value());
            // Not in the compression table of HTTP/2, which outlives the request.
            let headers = request.headers_mut().and_then(|headers| headers.get_mut(credential.header()));
            headers.into_iter().for_each(|value| value.set_sensitive(true));
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, http_api::MESSAGE_TYPE);
        }
        let request = request.body(Full::new(body)).map_err(|error| TransportError::Unreachable(error.to_string()))?;
        let response =
            self.client.request(request).await.map_err(|error| unreachable(&error, self.base.starts_with("https")))?;
        match response.status() {
            StatusCode::OK => Ok(response),
            status => Err(refusal(status, response).await),
        }
    }

    async fn manifest(response: Response<Incoming>) -> Result<ServedManifest, TransportError> {
        let keys = HeaderName::from_static(http_api::KEY_FINGERPRINTS_HEADER);
        let key_fingerprints = header(&response, keys).unwrap_or_default();
        Ok(ServedManifest { json: HttpServer::body(response, MAX_JSON).await?, key_fingerprints })
    }

    async fn body(response: Response<Incoming>, limit: usize) -> Result<Bytes, TransportError> {
        match Limited::new(response.into_body(), limit).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(TransportError::Length { have: limit as u64 + 1, need: limit })
            }
            Err(error) => Err(TransportError::CutOff(chain(error.as_ref()))),
        }
    }
}

/// Transports to the servers at these endpoints, with retries by `policy`.
pub fn servers<E: Into<Endpoint>>(
    endpoints: impl IntoIterator<Item = E>,
    trust: &TlsTrust,
    policy: RetryPolicy,
) -> Result<Vec<Arc<dyn Transport>>, ClientError> {
    let server = |endpoint: E| -> Result<Arc<dyn Transport>, ClientError> {
        let server = Arc::new(HttpServer::new(endpoint, trust)?);
        Ok(Arc::new(Retrying::new(server, policy, Arc::new(TokioClock::start()))))
    };
    endpoints.into_iter().map(server).collect()
}

impl Exchange for HttpServer {
    fn name(&self) -> String {
        self.base.clone()
    }

    fn address(&self) -> Option<String> {
        Some(self.base.clone())
    }

    fn certificate_key(&self) -> Option<[u8; 32]> {
        *self.certificate_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        Some(Arc::new(TokioClock::start()))
    }

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        Box::pin(async {
            let response = self.request(Method::GET, http_api::MANIFEST_PATH, Bytes::new(), None).await?;
            let claimed = response.headers().get(http_api::SERVER_INDEX_HEADER).and_then(|value| value.to_str().ok());
            let index = response::index(claimed)?;
            let digests = response.headers().get(http_api::PREVIOUS_MANIFESTS_HEADER).cloned();
            let manifest = HttpServer::manifest(response).await?;
            let mut previous = vec![];
            for path in response::previous_manifest_paths(digests.as_ref().map_or(b"", |digests| digests.as_bytes())) {
                let response = self.request(Method::GET, &path, Bytes::new(), None).await?;
                previous.push(HttpServer::manifest(response).await?);
            }
            Ok(ManifestResponse { index, manifest, previous })
        })
    }

    fn send<'a>(&'a self, request: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(async move {
            let ServerRequest { route, message, length, credential } = request;
            let mut verifier = ChecksumVerifier::new(length, response);
            let response = self.request(Method::POST, route.path(), message, credential).await?;
            response::check_length(header(&response, CONTENT_LENGTH).as_deref(), length)?;
            let mut body = response.into_body();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| TransportError::CutOff(chain(&error)))?;
                if let Some(bytes) = frame.data_ref() {
                    verifier.part(bytes)?;
                }
            }
            verifier.finish()
        })
    }
}

/// The error for a response with another status than 200.
async fn refusal(status: StatusCode, response: Response<Incoming>) -> TransportError {
    let retry_after = header(&response, RETRY_AFTER);
    let body = HttpServer::body(response, response::MAX_PROBLEM_LENGTH).await.unwrap_or_default();
    response::refusal(status.as_u16(), retry_after.as_deref(), &body)
}

fn header(response: &Response<Incoming>, name: HeaderName) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// Why the request failed. Causes that the user can remove have their own variants.
fn unreachable(error: &(dyn std::error::Error + 'static), secure: bool) -> TransportError {
    for cause in causes(error) {
        if let Some(mut io) = cause.downcast_ref::<std::io::Error>() {
            // TLS errors are wrapped in `io` errors, sometimes several times, and `source` does not
            // return them.
            while let Some(inner) = io.get_ref().and_then(|inner| inner.downcast_ref()) {
                io = inner;
            }
            match io.get_ref().and_then(|inner| inner.downcast_ref()) {
                Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
                    return TransportError::UnknownAuthority;
                }
                Some(rustls::Error::InvalidMessage(_)) => return TransportError::NoTls,
                _ if io.kind() == std::io::ErrorKind::ConnectionRefused => return TransportError::ConnectionRefused,
                _ => {}
            }
        }
        if !secure && cause.downcast_ref().is_some_and(hyper::Error::is_parse) {
            return TransportError::NotPlain;
        }
    }
    TransportError::Unreachable(chain(error))
}

/// The text of an error and of its causes.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    causes(error).map(|error| response::plain(&error.to_string())).collect::<Vec<_>>().join(": ")
}

fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the server sees a resumed session in the second of two handshakes with one client
    /// configuration.
    fn resumes(client: ClientConfig, server: Arc<rustls::ServerConfig>) -> bool {
        let client = Arc::new(client);
        let handshake = || {
            let name = "localhost".try_into().unwrap();
            let mut client = rustls::ClientConnection::new(client.clone(), name).unwrap();
            let mut server = rustls::ServerConnection::new(server.clone()).unwrap();
            // The server sends tickets after the handshake, so one more exchange is needed.
            for _ in 0..4 {
                let mut bytes = vec![];
                client.write_tls(&mut bytes).unwrap();
                server.read_tls(&mut bytes.as_slice()).unwrap();
                server.process_new_packets().unwrap();
                bytes.clear();
                server.write_tls(&mut bytes).unwrap();
                client.read_tls(&mut bytes.as_slice()).unwrap();
                client.process_new_packets().unwrap();
            }
            assert!(!client.is_handshaking());
            server.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
        };
        handshake();
        handshake()
    }

    #[test]
    fn no_session_is_resumed_even_if_the_server_offers_it() {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let private = rustls::pki_types::PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let server = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], private)
            .unwrap();
        let server = Arc::new(server);
        let trust = TlsTrust::pem(cert.pem().as_bytes()).unwrap();
        assert!(!resumes(trust.config.clone(), server.clone()));
        // The server does resume sessions of a client that allows it.
        let mut resuming = trust.config;
        resuming.resumption = Resumption::default();
        assert!(resumes(resuming, server));
    }

    #[test]
    fn certificates_for_one_key_are_recognised() {
        let [one, other] = [0; 2].map(|_| rcgen::KeyPair::generate().unwrap());
        let certificate = |name: &str, key: &rcgen::KeyPair| {
            rcgen::CertificateParams::new(vec![name.into()]).unwrap().self_signed(key).unwrap()
        };
        let hash = |name, key| key_hash(certificate(name, key).der()).unwrap();
        assert_ne!(certificate("a.example", &one).der(), certificate("b.example", &one).der());
        assert_eq!(hash("a.example", &one), hash("b.example", &one));
        assert_ne!(hash("a.example", &one), hash("a.example", &other));
    }

    #[tokio::test]
    async fn the_key_in_the_certificate_of_a_server_is_known_after_a_request() {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let private = rustls::pki_types::PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], private)
            .unwrap();
        let listener = std::net::TcpListener::bind("localhost:0").unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let serving = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (socket, _) = listener.accept().unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut stream = rustls::StreamOwned::new(rustls::ServerConnection::new(Arc::new(config)).unwrap(), socket);
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        });
        let server = HttpServer::new(&url, &TlsTrust::pem(cert.pem().as_bytes()).unwrap()).unwrap();
        assert_eq!(server.certificate_key(), None);
        let refused = server.fetch_manifest().await;
        assert!(matches!(refused, Err(TransportError::Refused { status: 404, .. })), "{refused:?}");
        assert_eq!(server.certificate_key(), Some(key_hash(cert.der()).unwrap()));
        serving.join().unwrap();
    }

    #[test]
    fn plain_http_is_allowed_on_loopback_only_unless_the_caller_allows_it() {
        let roots = RootCertStore::empty();
        let trust = TlsTrust::with(roots).unwrap();
        for url in ["https://example.org", "https://example.org:8443/a/", "http://127.0.0.1:1", "http://[::1]:1"] {
            HttpServer::new(url, &trust).unwrap();
        }
        for url in ["http://example.org", "ftp://example.org", "example.org", "", "https://", "https://a/?x=1"] {
            assert!(matches!(HttpServer::new(url, &trust), Err(ClientError::Url { .. })), "{url}");
        }
        HttpServer::new("http://example.org", &trust.clone().plain_http(true)).unwrap();
        let endpoint = Endpoint { token: Some("a\nb".into()), ..Endpoint::from("https://example.org") };
        assert!(HttpServer::new(endpoint, &trust).is_err());
    }
}
