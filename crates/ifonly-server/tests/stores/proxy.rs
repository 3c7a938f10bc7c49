//! A proxy between a server and its store that drops requests or replies on command.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// What the proxy does with bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ProxyMode {
    /// Forwards all bytes.
    Forward,
    /// Closes the connection instead of forwarding a request.
    DropRequests,
    /// Closes the connection instead of forwarding a reply.
    DropReplies,
    /// Discards replies and keeps the connection open.
    Silent,
}

pub struct Proxy {
    pub port: u16,
    mode: Arc<AtomicU8>,
}

impl Proxy {
    /// Listens on loopback and forwards to a Unix socket.
    pub fn to(socket: PathBuf) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (port, mode) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU8::new(ProxyMode::Forward as u8)));
        let shared = mode.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(store) = UnixStream::connect(&socket) else { continue };
                forward(client, store, &shared);
            }
        });
        Proxy { port, mode }
    }

    pub fn set_mode(&self, mode: ProxyMode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }
}

fn forward(client: TcpStream, store: UnixStream, mode: &Arc<AtomicU8>) {
    let (requests, replies) = (client.try_clone().unwrap(), store.try_clone().unwrap());
    let end = |client: &TcpStream, store: &UnixStream| {
        let _ = (client.shutdown(Shutdown::Both), store.shutdown(Shutdown::Both));
    };
    let is = |mode: &AtomicU8, expected: ProxyMode| mode.load(Ordering::SeqCst) == expected as u8;
    let (first, second) = (mode.clone(), mode.clone());
    std::thread::spawn(move || {
        let (mut client, mut store, mut bytes) = (requests, store, [0; 4096]);
        while let Ok(length @ 1..) = client.read(&mut bytes) {
            if is(&first, ProxyMode::DropRequests) || store.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        end(&client, &store);
    });
    std::thread::spawn(move || {
        let (mut client, mut store, mut bytes) = (client, replies, [0; 4096]);
        while let Ok(length @ 1..) = store.read(&mut bytes) {
            if is(&second, ProxyMode::Silent) {
                continue;
            }
            if is(&second, ProxyMode::DropReplies) || client.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        end(&client, &store);
    });
}
