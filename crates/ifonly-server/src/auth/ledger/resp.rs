//! The protocol of Redis and Valkey, as far as a ledger speaks it: a command is an array of byte
//! strings, a reply is one of four things. Every read and write has a time limit, from the first
//! byte of a handshake on.

use crate::auth::ledger::redis_url::RedisEndpoint;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// The longest reply: INFO has a few thousand bytes.
const LONGEST: u64 = 1 << 20;

/// A connection on which commands and replies alternate.
pub(crate) struct RespConnection {
    stream: BufReader<Stream>,
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RespReply {
    Text(String),
    Number(i64),
    Nothing,
    /// A refusal: the command was not carried out.
    Error(String),
}

enum Stream {
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixStream),
}

impl RespConnection {
    /// Connects; with TLS where a configuration is given.
    pub(crate) fn connect(
        at: &RedisEndpoint,
        tls: Option<&Arc<ClientConfig>>,
        timeout: Duration,
    ) -> io::Result<RespConnection> {
        let stream = match at {
            RedisEndpoint::Host { host, port, .. } => {
                let socket = dial(host, *port, timeout)?;
                match tls {
                    None => Stream::Tcp(socket),
                    Some(config) => {
                        let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                        let session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
                        Stream::Tls(Box::new(StreamOwned::new(session, socket)))
                    }
                }
            }
            #[cfg(unix)]
            RedisEndpoint::Socket(path) => {
                let socket = std::os::unix::net::UnixStream::connect(path)?;
                socket.set_read_timeout(Some(timeout))?;
                socket.set_write_timeout(Some(timeout))?;
                Stream::Unix(socket)
            }
            #[cfg(not(unix))]
            RedisEndpoint::Socket(_) => return Err(ErrorKind::Unsupported.into()),
        };
        Ok(RespConnection { stream: BufReader::new(stream) })
    }

    /// Sends a command and waits for its reply.
    pub(crate) fn ask(&mut self, words: &[&[u8]]) -> io::Result<RespReply> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            command.extend(format!("${}\r\n", word.len()).as_bytes());
            command.extend(*word);
            command.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&command)?;
        self.stream.get_mut().flush()?;
        self.reply()
    }

    /// Whether the other side has neither closed it nor said something unasked.
    pub(crate) fn is_open(&mut self) -> bool {
        let quiet = |stream: &mut Stream| {
            stream.set_nonblocking(true)?;
            let read = stream.read(&mut [0]);
            stream.set_nonblocking(false)?;
            Ok::<_, io::Error>(read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock))
        };
        self.stream.buffer().is_empty() && quiet(self.stream.get_mut()).unwrap_or(false)
    }

    fn reply(&mut self) -> io::Result<RespReply> {
        let head = self.head()?;
        let number = || head.get(1..).and_then(|digits| digits.parse::<i64>().ok()).ok_or_else(strange);
        match head.as_bytes().first() {
            Some(b'+') => Ok(RespReply::Text(head[1..].into())),
            Some(b'-') => Ok(RespReply::Error(head[1..].into())),
            Some(b':') => Ok(RespReply::Number(number()?)),
            Some(b'$') => match number()? {
                -1 => Ok(RespReply::Nothing),
                length if (0..=LONGEST as i64).contains(&length) => {
                    let mut bytes = vec![0; length as usize + 2];
                    self.stream.read_exact(&mut bytes)?;
                    bytes.truncate(length as usize);
                    String::from_utf8(bytes).map(RespReply::Text).map_err(|_| strange())
                }
                _ => Err(strange()),
            },
            _ => Err(strange()),
        }
    }

    /// A line without its end.
    fn head(&mut self) -> io::Result<String> {
        let mut bytes = vec![];
        (&mut self.stream).take(LONGEST).read_until(b'\n', &mut bytes)?;
        match bytes.strip_suffix(b"\r\n") {
            Some(line) => String::from_utf8(line.into()).map_err(|_| strange()),
            None if bytes.is_empty() => Err(ErrorKind::UnexpectedEof.into()),
            None => Err(strange()),
        }
    }
}

/// The first of the host's addresses that answers.
fn dial(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(timeout))?;
                socket.set_write_timeout(Some(timeout))?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn strange() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "this is no reply of a Redis")
}

impl Stream {
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Stream::Tcp(socket) => socket.set_nonblocking(nonblocking),
            Stream::Tls(stream) => stream.sock.set_nonblocking(nonblocking),
            #[cfg(unix)]
            Stream::Unix(socket) => socket.set_nonblocking(nonblocking),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(socket) => socket.read(bytes),
            Stream::Tls(stream) => stream.read(bytes),
            #[cfg(unix)]
            Stream::Unix(socket) => socket.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(socket) => socket.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
            #[cfg(unix)]
            Stream::Unix(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(socket) => socket.flush(),
            Stream::Tls(stream) => stream.flush(),
            #[cfg(unix)]
            Stream::Unix(socket) => socket.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// What a store that says these bytes has said.
    fn said(bytes: &'static [u8]) -> io::Result<RespReply> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let at =
            RedisEndpoint::Host { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port(), tls: false };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut socket, _) = listener.accept().unwrap();
                let mut command = [0; 14];
                socket.read_exact(&mut command).unwrap();
                assert_eq!(&command, b"*1\r\n$4\r\nPING\r\n");
                socket.write_all(bytes).unwrap();
            });
            RespConnection::connect(&at, None, Duration::from_secs(60)).unwrap().ask(&[b"PING"])
        })
    }

    #[test]
    fn replies_are_read_and_anything_else_is_an_error() {
        assert_eq!(said(b"+PONG\r\n").unwrap(), RespReply::Text("PONG".into()));
        assert_eq!(said(b"-OOM no\r\n").unwrap(), RespReply::Error("OOM no".into()));
        assert_eq!(said(b":-2\r\n").unwrap(), RespReply::Number(-2));
        assert_eq!(said(b"$3\r\na\nb\r\n").unwrap(), RespReply::Text("a\nb".into()));
        assert_eq!(said(b"$-1\r\n").unwrap(), RespReply::Nothing);
        let wrong: [&[u8]; 9] = [
            b"",
            b"\r\n",
            b":x\r\n",
            b":1",
            b"$9\r\na\r\n",
            b"$99999999999\r\n",
            b"$-2\r\n",
            b"HTTP/1.1 400\r\n",
            b"+\xff\r\n",
        ];
        for wrong in wrong {
            assert!(said(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
        }
    }
}
