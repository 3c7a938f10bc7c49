//! From a blocking thread's sink to a response body: a short channel, so that a slow reader holds back the scan instead of
//! filling memory, and a deadline, so that it cannot hold it for ever.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Chunks between the scan and the network.
const CHUNKS: usize = 4;

/// The answer stopped before its end.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the answer was cut off")]
pub(crate) struct CutOff;

/// The writing end.
#[derive(Debug)]
pub(crate) struct Writer {
    chunks: mpsc::Sender<Result<Bytes, CutOff>>,
    runtime: Handle,
    deadline: Instant,
}

/// The reading end: a body of known length.
#[derive(Debug)]
pub(crate) struct Reader {
    chunks: mpsc::Receiver<Result<Bytes, CutOff>>,
    left: u64,
}

/// Both ends of a body of `length` bytes. Must be called inside the runtime.
pub(crate) fn body(length: usize, limit: Duration) -> (Writer, Reader) {
    let (sender, receiver) = mpsc::channel(CHUNKS);
    let writer = Writer { chunks: sender, runtime: Handle::current(), deadline: Instant::now() + limit };
    (writer, Reader { chunks: receiver, left: length as u64 })
}

impl Writer {
    /// Sends a chunk; waits while the reader is behind. `Break` when it has gone or is too slow.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        let sending = self.chunks.send(Ok(Bytes::copy_from_slice(bytes)));
        match self.runtime.block_on(async { tokio::time::timeout_at(self.deadline, sending).await }) {
            Ok(Ok(())) => ControlFlow::Continue(()),
            _ => {
                // Without this the body would merely end; with it the connection says that the answer is not whole.
                let _ = self.chunks.try_send(Err(CutOff));
                ControlFlow::Break(())
            }
        }
    }
}

impl Body for Reader {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        self.chunks.poll_recv(context).map(|chunk| match chunk {
            Some(Ok(bytes)) => {
                self.left = self.left.saturating_sub(bytes.len() as u64);
                Some(Ok(Frame::data(bytes)))
            }
            Some(Err(cut)) => Some(Err(cut)),
            // The writer is gone too early: a fault of the server that must not look like an end.
            None if self.left > 0 => Some(Err(CutOff)),
            None => None,
        })
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn a_reader_that_stalls_stops_the_writer_and_sees_a_cut() {
        // The deadline has passed at once, so only what fits into the channel goes through.
        let (mut writer, reader) = body(1000, Duration::ZERO);
        let writing =
            tokio::task::spawn_blocking(move || (0..100).take_while(|_| writer.send(&[0; 10]).is_continue()).count());
        assert_eq!(writing.await.unwrap(), CHUNKS);
        assert!(reader.collect().await.is_err());
    }

    #[tokio::test]
    async fn a_writer_that_ends_early_is_an_error_and_a_whole_answer_is_none() {
        for (chunks, whole) in [(99, false), (100, true)] {
            let (mut writer, reader) = body(1000, Duration::from_secs(3));
            let writing = tokio::task::spawn_blocking(move || (0..chunks).all(|_| writer.send(&[7; 10]).is_continue()));
            let read = reader.collect().await;
            assert_eq!(read.is_ok_and(|read| read.to_bytes().len() == 1000), whole);
            assert!(writing.await.unwrap());
        }
    }

    #[tokio::test]
    async fn a_reader_that_goes_stops_the_writer() {
        let (mut writer, reader) = body(1000, Duration::from_secs(3));
        drop(reader);
        let writing = tokio::task::spawn_blocking(move || writer.send(&[0; 10]));
        assert!(writing.await.unwrap().is_break());
    }
}
