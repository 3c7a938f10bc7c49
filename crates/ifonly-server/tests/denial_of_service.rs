//! Attackers that occupy connections, uploads and responses, while an honest client wants an
//! answer. Every time limit is an hour here, so only eviction lets the honest client in. The time
//! limits are tested next to their code, with a paused clock.

mod support;

use ifonly_server::Server;
use ifonly_server::auth::account_tokens::AccountTokens;
use ifonly_server::config::Limits;
use ifonly_server::http::routes::AppState;
use ifonly_values::manifest::Manifest;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{loaded, manifest, manifest_of, messages};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const HOUR: u64 = 3600;
const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// The addresses of attackers: the address of the honest client, or another one.
fn attackers() -> [IpAddr; 2] {
    [HOME, IpAddr::from([127, 0, 0, 2])]
}

fn limits() -> Limits {
    Limits {
        max_concurrent: 1,
        queue: 3,
        connections: 12,
        request_seconds: HOUR,
        idle_seconds: HOUR,
        stall_seconds: HOUR,
        upload_seconds: HOUR,
        answer_seconds: HOUR,
        queue_seconds: HOUR,
        ..Limits::default()
    }
}

/// A server that runs until the test ends.
async fn server(limits: Limits, manifest: &Manifest) -> (SocketAddr, Arc<AppState>) {
    server_with(limits, manifest, None).await
}

async fn server_with(limits: Limits, manifest: &Manifest, tls: Option<ServerConfig>) -> (SocketAddr, Arc<AppState>) {
    let app = AppState::new(loaded(manifest, 1), AccountTokens::new(vec![], None).unwrap(), limits, vec![]);
    let server = Server::bind(app, "127.0.0.1:0".parse().unwrap(), None, tls.map(Arc::new)).await.unwrap();
    let (address, app) = (server.address(), server.app());
    tokio::spawn(server.run(std::future::pending()));
    (address, app)
}

async fn connect(from: IpAddr, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

/// The TLS configuration of a server, and a client that trusts it.
fn tls() -> (ServerConfig, TlsConnector) {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone()).unwrap();
    let mut server =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certified.cert.into()], key).unwrap();
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    (server, Arc::new(client).into())
}

/// A connection after the TLS handshake; `None` if the server evicted it during the handshake.
async fn connect_tls(from: IpAddr, to: SocketAddr, tls: &TlsConnector) -> Option<TlsStream<TcpStream>> {
    tls.connect("localhost".try_into().unwrap(), connect(from, to).await).await.ok()
}

/// Sends a query over a new connection and returns the status. Retries if the connection was
/// closed, as clients do.
async fn query(to: SocketAddr, message: &[u8]) -> u16 {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < Duration::from_secs(120), "no query was answered");
        if let Some(status) = query_over(connect(HOME, to).await, message).await {
            println!("answered after {:?}", began.elapsed());
            return status;
        }
    }
}

/// Sends a query over this connection; `None` if the connection was closed.
async fn query_over(mut stream: impl AsyncRead + AsyncWrite + Unpin, message: &[u8]) -> Option<u16> {
    let head = format!(
        "POST /v1/answer HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        message.len()
    );
    let mut response = vec![];
    stream.write_all(&[head.as_bytes(), message].concat()).await.ok()?;
    stream.read_to_end(&mut response).await.ok()?;
    String::from_utf8_lossy(response.strip_prefix(b"HTTP/1.1 ")?.get(..3)?).parse().ok()
}

/// A minimal HTTP/2 client that misbehaves: it writes frames directly.
struct Http2(TcpStream);

impl Http2 {
    /// A connection on which the server may send no body bytes, because the initial window is 0.
    async fn new(from: IpAddr, to: SocketAddr) -> Http2 {
        let mut stream = connect(from, to).await;
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        let mut client = Http2(stream);
        client.frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]).await;
        client
    }

    async fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        // An evicted connection is closed.
        let _ = self.0.write_all(&bytes).await;
    }

    /// Starts a POST to /v1/answer; the body may follow.
    async fn post(&mut self, stream: u32) {
        // :method POST, :scheme http, :path and :authority as literals.
        let headers = [&[0x83, 0x86, 0x04, 10][..], b"/v1/answer", &[0x01, 1], b"x"].concat();
        self.frame(1, 4, stream, &headers).await;
    }

    async fn body(&mut self, stream: u32, bytes: &[u8], end: bool) {
        self.frame(0, end.into(), stream, bytes).await;
    }

    /// Waits for the headers of a response, or for the end of the connection.
    async fn wait_for_headers(&mut self) {
        let mut head = [0; 9];
        while head[3] != 1 && self.0.read_exact(&mut head).await.is_ok() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let _ = self.0.read_exact(&mut vec![0; length]).await;
        }
    }
}

async fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_do_not_block_other_clients() {
    let message = messages(&manifest("1"), "gated", 1).remove(0);
    for from in attackers() {
        let (address, app) = server(limits(), &manifest("1")).await;
        let connections = || app.metrics().connections.load(std::sync::atomic::Ordering::Relaxed);
        let mut held: Vec<TcpStream> = vec![];
        for number in 0..40 {
            // In turn: no bytes, half a preface, an idle HTTP/2 connection, half a header.
            let mut stream = connect(from, address).await;
            let bytes: &[u8] = match number % 4 {
                0 => b"",
                1 => b"PRI * HT",
                2 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
                _ => b"POST /v1/answer HTTP/1.1\r\nho",
            };
            stream.write_all(bytes).await.unwrap();
            held.push(stream);
            if number % 10 == 9 {
                assert_eq!(query(address, &message).await, 200);
            }
        }
        wait_until(|| connections() <= 12).await;
        assert_eq!(query(address, &message).await, 200);
        // The server has closed the first connection.
        let mut rest = vec![];
        let _ = held[0].read_to_end(&mut rest).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_tls_connections_do_not_block_other_clients() {
    let message = messages(&manifest("1"), "gated", 4).remove(0);
    for from in attackers() {
        let (server_side, client) = tls();
        let (address, app) = server_with(limits(), &manifest("1"), Some(server_side)).await;
        let mut held = vec![];
        for number in 0..30 {
            // In turn: no handshake, a handshake without further bytes, and a handshake with half a
            // preface after it.
            match number % 3 {
                0 => held.push((Some(connect(from, address).await), None)),
                kind => {
                    let mut stream = connect_tls(from, address, &client).await;
                    if let (2, Some(stream)) = (kind, &mut stream) {
                        let _ = stream.write_all(b"PRI * HT").await;
                    }
                    held.push((None, stream));
                }
            }
            if number % 10 == 9 {
                let attempt = async || query_over(connect_tls(HOME, address, &client).await?, &message).await;
                let mut status = attempt().await;
                while status.is_none() {
                    status = attempt().await;
                }
                assert_eq!(status, Some(200));
            }
        }
        wait_until(|| app.metrics().connections.load(std::sync::atomic::Ordering::Relaxed) <= 12).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_responses_do_not_block_other_clients() {
    // A response has several spans and 600 kB. There is memory for one response, and one is
    // computed at a time.
    let manifest = manifest_of("1", 300_000);
    let message = messages(&manifest, "gated", 2).remove(0);
    for from in attackers() {
        let (address, app) = server(Limits { buffer_megabytes: 1, ..limits() }, &manifest).await;
        let mut held = vec![];
        for _ in 0..6 {
            let mut client = Http2::new(from, address).await;
            client.post(1).await;
            client.body(1, &message, true).await;
            client.wait_for_headers().await;
            assert!(app.buffered_bytes() > 500_000, "the response is buffered and unread");
            held.push(client);
            assert_eq!(query(address, &message).await, 200);
        }
        let stalled = app.metrics().stalled.load(std::sync::atomic::Ordering::Relaxed);
        assert!(stalled >= 5, "only {stalled} responses were evicted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_uploads_do_not_block_other_clients() {
    let message = messages(&manifest("1"), "gated", 3).remove(0);
    for from in attackers() {
        let (address, app) = server(Limits { buffer_megabytes: 1, ..limits() }, &manifest("1")).await;
        let mut held = vec![];
        for _ in 0..3 {
            let mut client = Http2::new(from, address).await;
            for stream in 0..32 {
                client.post(2 * stream + 1).await;
                client.body(2 * stream + 1, &message[..10], false).await;
            }
            held.push(client);
        }
        wait_until(|| app.buffered_bytes() > 0).await;
        for _ in 0..3 {
            assert_eq!(query(address, &message).await, 200);
        }
        assert!(app.buffered_bytes() > 0, "uploads are still unfinished");
    }
}
