//! From a blocking thread's sink to a response body. What the reader has not taken stays in memory,
//! where the answer has its [place](crate::limits::eviction), and a [watch] ends answers that
//! nobody reads. A writer with room for the whole answer waits for nobody; one with less waits for
//! its reader, and says so first, so that whatever it holds for computing can go to somebody else.

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

/// The most that a reader takes at a time; so much must go out before a stalled reader is given up.
const PIECE: usize = 16 << 10;

/// The answer stopped before its end.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the answer was cut off")]
pub(crate) struct ResponseAborted;

/// How far an answer is.
#[derive(Debug)]
pub(crate) struct ResponseProgress {
    written: AtomicU64,
    taken: AtomicU64,
    /// Bytes that may still be written before the reader takes some; closed when it has gone.
    room: Semaphore,
    over: Notify,
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct ResponseWriter {
    chunks: mpsc::UnboundedSender<Bytes>,
    progress: Arc<ResponseProgress>,
    room: usize,
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

/// Both ends of a body of `length` bytes, of which `room` may wait for the reader, and which is
/// computed within `limit`; and what they say to [`watch`].
pub(crate) fn body(
    length: usize,
    room: usize,
    limit: Duration,
) -> (ResponseWriter, ResponseBody, Arc<ResponseProgress>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let room = room.clamp(1, Semaphore::MAX_PERMITS);
    let (written, taken) = Default::default();
    let progress = Arc::new(ResponseProgress { written, taken, room: Semaphore::new(room), over: Notify::new() });
    let writer = ResponseWriter { chunks: sender, progress: progress.clone(), room, deadline: Instant::now() + limit };
    let left = length as u64;
    (writer, ResponseBody { chunks: receiver, current: Bytes::new(), left, progress: progress.clone() }, progress)
}

/// Resolves when an answer is to be ended: nothing of it was taken for `stall` though there was
/// something, or it is not out by `limit`. `Continue` if it has come to its end by itself.
pub(crate) async fn watch(progress: &ResponseProgress, stall: Duration, limit: Duration) -> ControlFlow<()> {
    let deadline = Instant::now() + limit;
    loop {
        let before = progress.taken.load(Ordering::Relaxed);
        let waiting = progress.written.load(Ordering::Relaxed) > before;
        tokio::select! {
            biased;
            () = progress.over.notified() => return ControlFlow::Continue(()),
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
    /// Takes a chunk; `rest` is called before there is a wait for the reader. `Break` when the
    /// reader has gone or it all takes too long.
    pub(crate) fn send(&mut self, bytes: &[u8], mut rest: impl FnMut()) -> ControlFlow<()> {
        for piece in bytes.chunks(self.room.min(u32::MAX as usize)) {
            self.make_room(piece.len() as u32, &mut rest)?;
            self.progress.written.fetch_add(piece.len() as u64, Ordering::Relaxed);
            if Instant::now() >= self.deadline || self.chunks.send(Bytes::copy_from_slice(piece)).is_err() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn make_room(&self, bytes: u32, rest: &mut impl FnMut()) -> ControlFlow<()> {
        let room = match self.progress.room.try_acquire_many(bytes) {
            Ok(room) => room,
            Err(TryAcquireError::Closed) => return ControlFlow::Break(()),
            Err(TryAcquireError::NoPermits) => {
                rest();
                let waiting = tokio::time::timeout_at(self.deadline, self.progress.room.acquire_many(bytes));
                match Handle::current().block_on(waiting) {
                    Ok(Ok(room)) => room,
                    Ok(Err(_)) | Err(_) => return ControlFlow::Break(()),
                }
            }
        };
        // The reader gives it back.
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
                // The writer is gone too early: a fault of the server that must not look like an
                // end.
                Poll::Ready(None) if self.left > 0 => return Poll::Ready(Some(Err(ResponseAborted))),
                Poll::Ready(None) => return Poll::Ready(None),
            }
        }
        let piece = self.current.len().min(PIECE);
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
        self.progress.over.notify_one();
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
        panic!("there is room for everything");
    }

    #[test]
    fn a_writer_with_room_for_everything_waits_for_nobody() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _inside = runtime.enter();
        let (mut writer, reader, _) = body(1000, 1000, LONG);
        assert!((0..100).all(|_| writer.send(&[0; 10], never).is_continue()));
        drop(writer);
        assert_eq!(runtime.block_on(reader.collect()).unwrap().to_bytes().len(), 1000);
    }

    /// Writes `chunks` chunks of 10 bytes with room for 25, and says how often it had to wait.
    fn writes(mut writer: ResponseWriter, chunks: u8) -> tokio::task::JoinHandle<(ControlFlow<()>, usize)> {
        tokio::task::spawn_blocking(move || {
            let mut waits = 0;
            let written = (0..chunks).try_for_each(|chunk| writer.send(&[chunk; 10], || waits += 1));
            (written, waits)
        })
    }

    #[tokio::test]
    async fn a_writer_with_less_room_says_that_it_waits_and_holds_no_more() {
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
    async fn a_wait_ends_when_the_reader_goes() {
        let (writer, reader, progress) = body(100, 25, LONG);
        let writing = writes(writer, 10);
        while progress.written.load(Ordering::Relaxed) < 20 {
            tokio::task::yield_now().await;
        }
        drop(reader);
        assert!(writing.await.unwrap().0.is_break());
    }

    #[tokio::test]
    async fn a_wait_ends_when_time_is_over_and_a_chunk_may_be_larger_than_the_room() {
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
    async fn a_reader_that_stalls_is_noticed_and_a_slow_one_only_in_the_end() {
        let (mut writer, mut reader, progress) = body(MEGABYTE, MEGABYTE, LONG);
        // Nothing is there to be taken yet: whoever waits for the scan does not stall.
        assert!(tokio::time::timeout(10 * SHORT, watch(&progress, SHORT, LONG)).await.is_err());
        assert!(writer.send(&[0; MEGABYTE], never).is_continue());
        let began = Instant::now();
        assert!(watch(&progress, SHORT, LONG).await.is_break());
        assert_eq!(began.elapsed(), SHORT);
        let began = Instant::now();
        let reading = async {
            loop {
                tokio::time::sleep(SHORT / 2).await;
                assert!(reader.frame().await.unwrap().unwrap().data_ref().unwrap().len() <= PIECE);
            }
        };
        tokio::select! {
            watched = watch(&progress, SHORT, LONG / 2) => assert!(watched.is_break()),
            () = reading => {}
        }
        assert_eq!(began.elapsed(), LONG / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_was_read_or_whose_reader_has_gone_is_watched_no_more() {
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
    async fn a_writer_that_ends_early_or_too_late_is_an_error() {
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
