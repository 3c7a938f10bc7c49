//! A reload replaces certificates: the withdrawn one is let in no more, the new one is.

use super::super::listener::{NextServer, PeerListener, PeersConfig, PreviousServer};
use super::super::{PeerLimits, PeerNetwork, PeerTls, RandomnessMode};
use crate::key_file;
use crate::peers::stream::PeerStreamError;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::net::TcpListener;

const FREE_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Certificates and keys by name.
struct Files(tempfile::TempDir);

impl Files {
    fn certificate(&self, name: &str) -> PathBuf {
        self.0.path().join(name).with_extension("pem")
    }

    fn key(&self, name: &str) -> PathBuf {
        self.0.path().join(name).with_extension("key")
    }
}

fn config(files: &Files, address: SocketAddr, next: &str, previous: &str) -> PeersConfig {
    PeersConfig {
        listen: FREE_PORT,
        next: NextServer { addresses: vec![address.to_string()], certificate: files.certificate(next) },
        previous: PreviousServer { certificate: files.certificate(previous) },
        randomness: RandomnessMode::System,
        limits: PeerLimits::default(),
    }
}

/// Whether the next server accepts the certificate of this server. A server that has had no session
/// answers this request with status 503.
async fn is_let_in(network: &PeerNetwork) -> bool {
    match network.connectors[0].open_prefetch().await.map(|_| ()) {
        Err(PeerStreamError::Refused(503)) => true,
        Err(PeerStreamError::Unreachable(_) | PeerStreamError::Broken(_)) => false,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_reload_withdraws_the_old_certificates_of_peers_and_lets_the_new_ones_in() {
    let files = Files(tempfile::tempdir().unwrap());
    for name in ["one", "one-new", "two", "two-new"] {
        key_file::create_certificate(&files.certificate(name), &files.key(name), &["127.0.0.1".into()]).unwrap();
    }
    // Server 1 connects to server 2; the other direction is not used.
    let listener = TcpListener::bind(FREE_PORT).await.unwrap();
    let address = listener.local_addr().unwrap();
    let start = |listener, server, own: &str, next: &str, previous: &str| {
        let config = config(&files, address, next, previous);
        PeerListener::on(listener, &config, server, &files.certificate(own), &files.key(own)).unwrap().run()
    };
    let two = start(listener, 2, "two", "one", "one");
    let one = start(TcpListener::bind(FREE_PORT).await.unwrap(), 1, "one", "two", "two");
    assert!(is_let_in(&one).await);
    let reload = async |network: &PeerNetwork, own: &str, next: &str, previous: &str| {
        let (certificate, key): (&Path, &Path) = (&files.certificate(own), &files.key(own));
        let tls = PeerTls::load(&config(&files, address, next, previous), certificate, key).unwrap();
        network.replace_certificates(tls).await;
    };
    // The same certificates again: nothing is withdrawn.
    reload(&two, "two", "one", "one").await;
    assert!(is_let_in(&one).await);
    // Server 1 has a new certificate. The open connection with the withdrawn one ends too.
    reload(&two, "two", "one-new", "one-new").await;
    assert!(!is_let_in(&one).await);
    reload(&one, "one-new", "two", "two").await;
    assert!(is_let_in(&one).await);
    // Server 2 presents a new certificate to new connections.
    reload(&two, "two-new", "one-new", "one-new").await;
    one.connectors[0].disconnect().await;
    assert!(!is_let_in(&one).await);
    reload(&one, "one-new", "two-new", "two-new").await;
    assert!(is_let_in(&one).await);
}

#[tokio::test]
async fn unfinished_handshakes_of_one_address_do_not_keep_the_peer_out() {
    let files = Files(tempfile::tempdir().unwrap());
    for name in ["one", "two"] {
        key_file::create_certificate(&files.certificate(name), &files.key(name), &["127.0.0.1".into()]).unwrap();
    }
    let listener = TcpListener::bind(FREE_PORT).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (one, two) = (config(&files, address, "two", "two"), config(&files, address, "one", "one"));
    let two = PeerListener::on(listener, &two, 2, &files.certificate("two"), &files.key("two")).unwrap();
    let acceptor = two.acceptor.clone();
    let _two = two.run();
    let mut idle = vec![];
    for _ in 0..200 {
        idle.push(tokio::net::TcpStream::connect(address).await.unwrap());
    }
    let own = TcpListener::bind(FREE_PORT).await.unwrap();
    let one = PeerListener::on(own, &one, 1, &files.certificate("one"), &files.key("one")).unwrap().run();
    assert!(is_let_in(&one).await);
    assert!(acceptor.handshakes() <= 64, "the oldest connections were not displaced");
}
