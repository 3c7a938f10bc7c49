//! The targets `shards` and `ledgers`: what a shard and a frontend send each other, and what a
//! store replies to the server that counts searches in it.

use ifonly_server::auth::ledger::{self, LedgerConfig};
use ifonly_server::shards::fuzzing;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{LazyLock, Mutex, PoisonError};

const MAX_LEVELS: [u32; 3] = [3, 0, 9];

pub(crate) fn shards(bytes: &[u8]) {
    fuzzing::decode(bytes, &MAX_LEVELS);
}

pub(crate) fn shard_seeds() -> Vec<Vec<u8>> {
    fuzzing::requests(&MAX_LEVELS)
}

/// Ends a reply. The store then waits for the next command.
const END: u8 = 0xFF;

/// The replies of the store.
static REPLIES: Mutex<Vec<Vec<u8>>> = Mutex::new(vec![]);

/// A store that sends the replies of the current input, one for each time that it reads, and then
/// closes the connection.
static STORE: LazyLock<SocketAddr> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("the listener has an address");
    std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(converse(stream))));
    address
});

fn converse(mut stream: TcpStream) -> std::io::Result<()> {
    let replies = REPLIES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for reply in replies {
        if stream.read(&mut [0; 4096])? == 0 {
            break;
        }
        stream.write_all(&reply)?;
    }
    Ok(())
}

pub(crate) fn ledgers(bytes: &[u8]) {
    let Some((&store, bytes)) = bytes.split_first() else { return };
    let replies = bytes.split(|&byte| byte == END).map(<[u8]>::to_vec).collect();
    let address = *STORE;
    *REPLIES.lock().unwrap_or_else(PoisonError::into_inner) = replies;
    let url = match store % 2 {
        0 => format!("redis://{address}"),
        _ => format!("postgres://user@{address}/database?sslmode=disable"),
    };
    if let Ok(ledger) = ledger::open(&LedgerConfig::new(&url), "fuzz/1") {
        let _ = (ledger.spend("a phase0", 3), ledger.spend("a record", 1));
        assert!(ledger.known().values().all(|&count| count <= i64::MAX as u64));
    }
}

pub(crate) fn ledger_seeds() -> Vec<Vec<u8>> {
    let info = "role:master\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n";
    let info = format!("${}\r\n{info}\r\n", info.len());
    let redis = [info.as_str(), "$4\r\nname\r\n", ":1\r\n", ":0\r\n"];
    let refusals = [info.as_str(), "$4\r\nname\r\n", "-NOPERM no\r\n", ":-2\r\n"];
    // Authenticated, ready; then the identity of the ledger as a row with one column.
    let postgres = ["R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", "1\0\0\0\x04t\0\0\0\x06\0\0n\0\0\0\x04Z\0\0\0\x05I"];
    let seed = |store: u8, replies: &[&str]| {
        let replies: Vec<&[u8]> = replies.iter().map(|reply| reply.as_bytes()).collect();
        [&[store][..], &replies.join(&END)].concat()
    };
    vec![seed(0, &redis), seed(0, &refusals), seed(1, &postgres)]
}
