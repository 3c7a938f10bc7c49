//! A response body that a blocking thread writes and the HTTP connection reads.
//!
//! Bytes that the connection has not read yet stay in memory, and the response has a
//! [entry](crate::limits::eviction) for them. [`watch`] ends responses that the client does not
//! read. A writer whose buffer fits the whole response never waits. A writer with a smaller buffer
//! waits for the reader; before that it calls a callback that releases the permit to compute.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, TryAcquireError, mpsc};
use tokio::time::Instant;

/// Maximum bytes of one body frame. A client that reads less than this in the stall time counts as
/// stalled.
const FRAME_BYTES: usize = 16 << 10;

/// The writer ended before the response was complete.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the response ended early")]
pub(crate) struct ResponseAborted;

/// Progress of a response, shared by writer, reader and [`watch`].
#[derive(Debug)]
pub(crate) struct ResponseProgress {
    written: AtomicU64,
    taken: AtomicU64,
    /// Bytes that may be written before the reader takes some; closed when the reader is dropped.
    room: Semaphore,
    ended: Notify,
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct ResponseWriter {
    chunks: mpsc::UnboundedSender<Bytes>,
    progress: Arc<ResponseProgress>,
    capacity: usize,
    deadline: Instant,
}

/// The reading end: a body of known length.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    chunks: mpsc::UnboundedReceiver<Bytes>,
    current: Bytes,
    left: u64,
    progress: Arc<ResponseProgress>,
}

/// Writer and reader of a body of `length` bytes, and their progress for [`watch`]. At most
/// `capacity` bytes wait for the reader. The body must be written within `limit`.
pub(crate) fn body(
    length: usize,
    capacity: usize,
    limit: Duration,
) -> (ResponseWriter, ResponseBody, Arc<ResponseProgress>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let capacity = capacity.clamp(1, Semaphore::MAX_PERMITS);
    let (written, taken) = Default::default();
    let progress = Arc::new(ResponseProgress { written, taken, room: Semaphore::new(capacity), ended: Notify::new() });
    let writer =
        ResponseWriter { chunks: sender, progress: progress.clone(), capacity, deadline: Instant::now() + limit };
    let left = length as u64;
    (writer, ResponseBody { chunks: receiver, current: Bytes::new(), left, progress: progress.clone() }, progress)
}

/// Waits until a response ends. Returns `Continue` if it ended by itself. Returns `Break` if the
/// server must end it: the client read nothing for `stall` although bytes were available, or the
/// response was not complete after `limit`.
pub(crate) async fn watch(progress: &ResponseProgress, stall: Duration, limit: Duration) -> ControlFlow<()> {
    let deadline = Instant::now() + limit;
    loop {
        let before = progress.taken.load(Ordering::Relaxed);
        let waiting = progress.written.load(Ordering::Relaxed) > before;
        tokio::select! {
            biased;
            () = progress.ended.notified() => return ControlFlow::Continue(()),
            () = tokio::time::sleep_until(deadline) => return ControlFlow::Break(()),
            () = tokio::time::sleep(stall) => {
                if waiting && progress.taken.load(Ordering::Relaxed) == before {
                    return ControlFlow::Break(());
                }
            }
        }
    }
}

impl ResponseWriter {
    /// Writes a chunk. Calls `before_wait` before it waits for the reader. Returns `Break` if the
    /// reader was dropped or the time limit is over.
    pub(crate) fn send(&mut self, bytes: &[u8], mut before_wait: impl FnMut()) -> ControlFlow<()> {
        for piece in bytes.chunks(self.capacity.min(u32::MAX as usize)) {
            self.make_room(piece.len() as u32, &mut before_wait)?;
            self.progress.written.fetch_add(piece.len() as u64, Ordering::Relaxed);
            if Instant::now() >= self.deadline || self.chunks.send(Bytes::copy_from_slice(piece)).is_err() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn make_room(&self, bytes: u32, before_wait: &mut impl FnMut()) -> ControlFlow<()> {
        let room = match self.progress.room.try_acquire_many(bytes) {
            Ok(room) => room,
            Err(TryAcquireError::Closed) => return ControlFlow::Break(()),
            Err(TryAcquireError::NoPermits) => {
                before_wait();
                let waiting = tokio::time::timeout_at(self.deadline, self.progress.room.acquire_many(bytes));
                match Handle::current().block_on(waiting) {
                    Ok(Ok(room)) => room,
                    Ok(Err(_)) | Err(_) => return ControlFlow::Break(()),
                }
            }
        };
        // The reader adds these permits again.
        room.forget();
        ControlFlow::Continue(())
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = ResponseAborted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ResponseAborted>>> {
        while self.current.is_empty() {
            match self.chunks.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(chunk)) => self.current = chunk,
                // The writer ended early. This must not look like a complete response.
                Poll::Ready(None) if self.left > 0 => return Poll::Ready(Some(Err(ResponseAborted))),
                Poll::Ready(None) => return Poll::Ready(None),
            }
        }
        let piece = self.current.len().min(FRAME_BYTES);
        let piece = self.current.split_to(piece);
        self.left = self.left.saturating_sub(piece.len() as u64);
        self.progress.taken.fetch_add(piece.len() as u64, Ordering::Relaxed);
        self.progress.room.add_permits(piece.len());
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.progress.room.close();
        self.progress.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    const SHORT: Duration = Duration::from_secs(3);
    const LONG: Duration = Duration::from_secs(100);
    const MEGABYTE: usize = 1 << 20;

    fn never() {
        panic!("the buffer fits the whole body");
    }

    #[test]
    fn a_writer_whose_buffer_fits_the_body_never_waits() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _guard = runtime.enter();
        let (mut writer, reader, _) = body(1000, 1000, LONG);
        assert!((0..100).all(|_| writer.send(&[0; 10], never).is_continue()));
        drop(writer);
        assert_eq!(runtime.block_on(reader.collect()).unwrap().to_bytes().len(), 1000);
    }

    /// Writes `chunks` chunks of 10 bytes; returns how often the writer waited.
    fn writes(mut writer: ResponseWriter, chunks: u8) -> tokio::task::JoinHandle<(ControlFlow<()>, usize)> {
        tokio::task::spawn_blocking(move || {
            let mut waits = 0;
            let written = (0..chunks).try_for_each(|chunk| writer.send(&[chunk; 10], || waits += 1));
            (written, waits)
        })
    }

    #[tokio::test]
    async fn a_writer_with_a_small_buffer_waits_and_never_exceeds_it() {
        let (writer, mut reader, progress) = body(100, 25, LONG);
        let writing = writes(writer, 10);
        let mut read = vec![];
        while let Some(frame) = reader.frame().await {
            let bytes = frame.unwrap().into_data().unwrap();
            read.extend_from_slice(&bytes);
            let [written, taken] = [&progress.written, &progress.taken].map(|count| count.load(Ordering::Relaxed));
            assert!(written <= taken + 25, "{written} bytes written, {taken} taken");
        }
        assert!(writing.await.unwrap().0.is_continue());
        assert_eq!(read, (0..100).map(|byte| byte / 10).collect::<Vec<u8>>());
    }

    #[tokio::test]
    async fn a_wait_ends_when_the_reader_is_dropped() {
        let (writer, reader, progress) = body(100, 25, LONG);
        let writing = writes(writer, 10);
        while progress.written.load(Ordering::Relaxed) < 20 {
            tokio::task::yield_now().await;
        }
        drop(reader);
        assert!(writing.await.unwrap().0.is_break());
    }

    #[tokio::test]
    async fn a_wait_ends_at_the_time_limit_and_a_chunk_may_be_larger_than_the_buffer() {
        let (mut writer, _reader, _) = body(100, 25, Duration::ZERO);
        let (written, waits) = writes(body(100, 25, Duration::from_millis(1)).0, 0).await.unwrap();
        assert!(written.is_continue() && waits == 0);
        let late = tokio::task::spawn_blocking(move || writer.send(&[0; 60], || ())).await.unwrap();
        assert!(late.is_break());
        let (mut writer, reader, _) = body(60, 25, LONG);
        let writing = tokio::task::spawn_blocking(move || writer.send(&[7; 60], || ()));
        assert_eq!(reader.collect().await.unwrap().to_bytes(), [7; 60].as_slice());
        assert!(writing.await.unwrap().is_continue());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_reader_is_detected_early_and_a_slow_reader_at_the_limit() {
        let (mut writer, mut reader, progress) = body(MEGABYTE, MEGABYTE, LONG);
        // No bytes are available yet: a reader that waits for the scan is not stalled.
        assert!(tokio::time::timeout(10 * SHORT, watch(&progress, SHORT, LONG)).await.is_err());
        assert!(writer.send(&[0; MEGABYTE], never).is_continue());
        let began = Instant::now();
        assert!(watch(&progress, SHORT, LONG).await.is_break());
        assert_eq!(began.elapsed(), SHORT);
        let began = Instant::now();
        let reading = async {
            loop {
                tokio::time::sleep(SHORT / 2).await;
                assert!(reader.frame().await.unwrap().unwrap().data_ref().unwrap().len() <= FRAME_BYTES);
            }
        };
        tokio::select! {
            watched = watch(&progress, SHORT, LONG / 2) => assert!(watched.is_break()),
            () = reading => {}
        }
        assert_eq!(began.elapsed(), LONG / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn watching_ends_when_the_response_was_read_or_the_reader_was_dropped() {
        let (mut writer, reader, progress) = body(10, 10, LONG);
        assert!(writer.send(&[0; 10], never).is_continue());
        drop(writer);
        assert!(reader.collect().await.is_ok());
        assert!(watch(&progress, SHORT, LONG).await.is_continue());
        let (mut writer, reader, progress) = body(10, 10, LONG);
        drop(reader);
        assert!(writer.send(&[0; 10], never).is_break());
        assert!(watch(&progress, SHORT, LONG).await.is_continue());
    }

    #[tokio::test(start_paused = true)]
    async fn a_writer_that_ends_early_or_too_late_gives_an_error() {
        let (mut writer, reader, _) = body(1000, 1000, LONG);
        assert!((0..99).all(|_| writer.send(&[7; 10], never).is_continue()));
        drop(writer);
        assert!(reader.collect().await.is_err());
        let (mut writer, reader, _) = body(20, 20, SHORT);
        assert!(writer.send(&[7; 10], never).is_continue());
        tokio::time::advance(SHORT).await;
        assert!(writer.send(&[7; 10], never).is_break());
        drop(writer);
        assert!(reader.collect().await.is_err());
    }
}
