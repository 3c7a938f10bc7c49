//! Something between a server and its store that loses what it is told to lose.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// What it does with bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mood {
    /// Passes them on.
    Honest,
    /// Ends the connection instead of passing a request on.
    LosesRequests,
    /// Ends the connection instead of passing a reply on.
    LosesReplies,
    /// Keeps replies to itself and says nothing.
    Silent,
}

pub struct Proxy {
    pub port: u16,
    mood: Arc<AtomicU8>,
}

impl Proxy {
    /// Listens on loopback and passes on to a socket.
    pub fn before(socket: PathBuf) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (port, mood) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU8::new(Mood::Honest as u8)));
        let shared = mood.clone();
        std::thread::spawn(move || {
            for asker in listener.incoming().flatten() {
                let Ok(store) = UnixStream::connect(&socket) else { continue };
                pass_on(asker, store, &shared);
            }
        });
        Proxy { port, mood }
    }

    pub fn be(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::SeqCst);
    }
}

fn pass_on(asker: TcpStream, store: UnixStream, mood: &Arc<AtomicU8>) {
    let (asks, answers) = (asker.try_clone().unwrap(), store.try_clone().unwrap());
    let end = |asker: &TcpStream, store: &UnixStream| {
        let _ = (asker.shutdown(Shutdown::Both), store.shutdown(Shutdown::Both));
    };
    let is = |mood: &AtomicU8, wanted: Mood| mood.load(Ordering::SeqCst) == wanted as u8;
    let (first, second) = (mood.clone(), mood.clone());
    std::thread::spawn(move || {
        let (mut asker, mut store, mut bytes) = (asks, store, [0; 4096]);
        while let Ok(length @ 1..) = asker.read(&mut bytes) {
            if is(&first, Mood::LosesRequests) || store.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        end(&asker, &store);
    });
    std::thread::spawn(move || {
        let (mut asker, mut store, mut bytes) = (asker, answers, [0; 4096]);
        while let Ok(length @ 1..) = store.read(&mut bytes) {
            if is(&second, Mood::Silent) {
                continue;
            }
            if is(&second, Mood::LosesReplies) || asker.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        end(&asker, &store);
    });
}
