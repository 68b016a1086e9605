//! Captured output, bounded while it is read.

use std::{collections::VecDeque, io, sync::Arc};

use bytes::Bytes;
use nix::unistd;
use tokio::{
    net::unix::pipe,
    sync::{Notify, mpsc},
    task::yield_now,
};

use hookjail_base::{model::Captured, util::shares::Share};

/// Bytes kept of a cut output's end.
const TAIL: usize = 64 * 1024;

/// An output stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stream {
    /// Standard error.
    Stderr,
    /// Standard output.
    Stdout,
}

/// A chunk of output, for callers that watch a run.
pub type Chunk = (Stream, Bytes);

/// Bytes of an output that are kept, regardless of the memory that other requests hold. The verdict is read from them.
const ALWAYS: usize = 64 * 1024;

/// Memory budget of captured outputs.
#[derive(Debug)]
struct Budget {
    /// The caller's share; `None` = only the cap limits it.
    memory: Option<Arc<Share>>,
    /// Whether the share was once too small. Later output is then dropped too, so that there is no gap.
    spent: bool,
}

impl Budget {
    /// Returns how many of `more` bytes may be kept beside those already kept.
    fn take(&mut self, kept: usize, more: usize) -> usize {
        let Some(memory) = &self.memory else {
            return more;
        };
        let free = ALWAYS.saturating_sub(kept).min(more);
        self.spent |= more > free && !memory.grow(more - free);
        if self.spent { free } else { more }
    }
}

/// Bytes per read.
const PIECE: usize = 16 * 1024;

/// Number of chunks after which the task yields. So a hook that writes without a pause does not occupy a thread.
const TURN: u32 = 4;

/// Number of chunks read from an output after the run's last writer is gone: more than a pipe's capacity.
const REST: u32 = 128;

/// A reader of one output, bounded by the cap and the budget.
#[derive(Debug)]
pub(super) struct Capture {
    budget: Budget,
    cap: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    stream: Stream,
    /// Data not yet sent to a watching caller.
    unsent: VecDeque<Bytes>,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Read {
    /// No data at the moment.
    Dry,
    /// End of the pipe.
    End,
    /// Data was read.
    Piece,
}

impl Capture {
    pub(super) const fn new(stream: Stream, cap: usize) -> Self {
        Self {
            budget: Budget {
                memory: None,
                spent: false,
            },
            cap,
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
            stream,
            unsent: VecDeque::new(),
        }
    }

    /// Reads until the pipe ends; notifies `on_over` when the cap is passed. Cancel-safe: the data read is in `self`.
    pub(super) async fn read(
        &mut self,
        pipe: &pipe::Receiver,
        chunks: Option<&mpsc::Sender<Chunk>>,
        on_over: Option<&Notify>,
    ) -> io::Result<()> {
        let mut pieces = 0_u32;
        loop {
            match self.piece(|buffer| pipe.try_read(buffer), chunks.is_some())? {
                Read::End => return Ok(()),
                Read::Dry => pipe.readable().await?,
                Read::Piece => {
                    if let Some(on_over) = on_over.filter(|_| self.total > self.cap as u64) {
                        on_over.notify_one();
                    }
                    if let Some(chunks) = chunks {
                        self.send(chunks).await;
                    }
                    pieces = pieces.wrapping_add(1);
                    if pieces.is_multiple_of(TURN) {
                        yield_now().await;
                    }
                }
            }
        }
    }

    /// Reads the rest of a pipe after its run has ended. Returns whether the pipe is at its end.
    pub(super) fn rest(&mut self, pipe: &pipe::Receiver, watched: bool) -> io::Result<bool> {
        for _ in 0..REST {
            // Not through the runtime, which may not have polled the last write yet.
            match self.piece(|buffer| Ok(unistd::read(pipe, buffer)?), watched)? {
                Read::End => return Ok(true),
                Read::Dry => return Ok(false),
                Read::Piece => {}
            }
        }
        Ok(false)
    }

    /// Sends the unsent chunks to a watching caller. Cancel-safe.
    pub(super) async fn send(&mut self, chunks: &mpsc::Sender<Chunk>) {
        while !self.unsent.is_empty() {
            let Ok(permit) = chunks.reserve().await else {
                // The client is gone; the run's cancellation handles that.
                self.unsent.clear();
                return;
            };
            if let Some(piece) = self.unsent.pop_front() {
                permit.send((self.stream, piece));
            }
        }
    }

    /// Reads one chunk. The buffer is on the stack, so that thousands of waiting hooks hold no memory.
    fn piece(
        &mut self,
        read: impl Fn(&mut [u8]) -> io::Result<usize>,
        watched: bool,
    ) -> io::Result<Read> {
        let mut buffer = [0_u8; PIECE];
        loop {
            return match read(&mut buffer) {
                Ok(0) => Ok(Read::End),
                Ok(count) => {
                    let piece = &buffer[..count];
                    self.keep(piece);
                    if watched {
                        self.unsent.push_back(Bytes::copy_from_slice(piece));
                    }
                    Ok(Read::Piece)
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Read::Dry),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        self.total += piece.len() as u64;
        let fits = piece.len().min(self.cap - self.head.len());
        let fits = self.budget.take(self.head.len(), fits);
        let (head, rest) = piece.split_at(fits);
        self.head.extend_from_slice(head);
        let excess = (self.tail.len() + rest.len()).saturating_sub(TAIL);
        self.tail.drain(..excess.min(self.tail.len()));
        self.tail.extend(&rest[rest.len().saturating_sub(TAIL)..]);
    }

    /// Charges the kept output to a caller's memory.
    pub(super) fn counted(mut self, memory: Option<Arc<Share>>) -> Self {
        self.budget.memory = memory;
        self
    }

    pub(super) fn finish(self) -> Captured {
        Captured {
            head: self.head,
            tail: self.tail.into(),
            total: self.total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_of_a_long_output_are_kept() {
        let mut capture = Capture::new(Stream::Stdout, 10);
        for _ in 0..20_000 {
            capture.keep(b"0123456789");
        }
        capture.keep(b"the end");
        let captured = capture.finish();
        assert_eq!(captured.head, b"0123456789");
        assert_eq!(captured.total, 200_007);
        assert_eq!(captured.tail.len(), TAIL);
        assert!(captured.tail.ends_with(b"789the end"));
        assert!(captured.truncated());
    }

    #[test]
    fn an_output_is_cut_where_its_caller_has_no_memory_left_but_never_its_beginning() {
        let memory = Arc::new(hookjail_base::util::shares::Shares::new(ALWAYS));
        let other = memory.share(2);
        assert!(other.grow(1));
        let share = Arc::new(memory.share(1));
        let mut capture =
            Capture::new(Stream::Stdout, 8 * ALWAYS).counted(Some(Arc::clone(&share)));
        for _ in 0..8 * 1024 {
            capture.keep(&[b'x'; 64]);
        }
        let captured = capture.finish();
        assert!(captured.truncated() && captured.total == 8 * ALWAYS as u64);
        let kept = captured.head.len() - ALWAYS;
        assert!((ALWAYS / 2..ALWAYS).contains(&kept), "{kept}");
        assert_eq!(captured.tail.len(), TAIL);
        // Kept bytes stay counted for as long as the request is in work.
        assert!(!share.grow(ALWAYS / 2));
        drop((share, other));
        // The control: with memory left nothing is cut.
        let share = Arc::new(memory.share(1));
        let mut capture = Capture::new(Stream::Stdout, 8 * ALWAYS).counted(Some(share));
        capture.keep(&[b'x'; 2 * ALWAYS]);
        assert!(!capture.finish().truncated());
    }

    #[test]
    fn an_output_that_fits_exactly_is_not_truncated() {
        let mut capture = Capture::new(Stream::Stdout, 4);
        capture.keep(b"ab");
        capture.keep(b"cd");
        let captured = capture.finish();
        assert_eq!(
            (captured.head.as_slice(), captured.tail.len()),
            (b"abcd".as_slice(), 0)
        );
        assert!(!captured.truncated());
    }

    #[test]
    fn one_piece_over_cap_and_tail_keeps_its_last_bytes() {
        let mut capture = Capture::new(Stream::Stdout, 2);
        let mut piece = vec![b'x'; 3 * TAIL];
        piece.extend_from_slice(b"end");
        capture.keep(&piece);
        let captured = capture.finish();
        assert_eq!(captured.head, b"xx");
        assert!(captured.tail.ends_with(b"xend"));
        assert_eq!(captured.tail.len(), TAIL);
    }
}
