//! Costs of a record under each policy of writing to the disk, interleaved: only the ratios mean anything.
//!
//! `TMPDIR=/where/the/state/is cargo bench --bench journal -- [RECORDS]`

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::{
    env,
    error::Error,
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::FileExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use hookjail_journal::{
    append::{Fsync, Journal, Settings},
    record::{PeerLine, Record, Refused},
};
use tempfile::TempDir;

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo passes `--bench`.
    let records = env::args().skip(1).find_map(|word| word.parse().ok());
    let records: u32 = records.unwrap_or(400);
    let policies = [
        ("never", Fsync::Never),
        ("1s", Fsync::Every(Duration::from_secs(1))),
        ("always", Fsync::Always),
    ];
    let mut rows: Vec<(String, u32, Vec<Duration>)> = Vec::new();
    for writers in [1, 8] {
        for (name, _) in policies {
            rows.push((format!("`{name}`"), writers, Vec::new()));
        }
    }
    for name in [
        "`write`",
        "`write`, `fdatasync`",
        "note in place",
        "note renamed",
    ] {
        rows.push((name.to_owned(), 1, Vec::new()));
    }
    for _ in 0..ROUNDS {
        let mut taken = Vec::new();
        for writers in [1, 8] {
            for (_, fsync) in policies {
                taken.push(journal(fsync, writers, records / ROUNDS)?);
            }
        }
        for sync in [false, true] {
            taken.push(raw(records / ROUNDS, sync)?);
        }
        for renamed in [false, true] {
            taken.push(note(records / ROUNDS, renamed)?);
        }
        for (row, taken) in rows.iter_mut().zip(taken) {
            row.2.push(taken);
        }
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e6
    };
    println!("| a record | writers | µs | ratio |\n|---|---|---|---|");
    let base = median(&mut rows[0].2);
    for (name, writers, mut times) in rows {
        let micros = median(&mut times);
        println!(
            "| {name} | {writers} | {micros:.0} | {:.2} |",
            micros / base
        );
    }
    Ok(())
}

/// Returns what a record takes, all writers together.
fn journal(fsync: Fsync, writers: u32, records: u32) -> Result<Duration, Box<dyn Error>> {
    let dir = TempDir::new()?;
    let settings = Settings {
        fsync,
        ..Settings::default()
    };
    let journal = Journal::open(dir.path(), settings)?;
    let share = records.div_ceil(writers);
    let begun = Instant::now();
    let failed = thread::scope(|scope| {
        let writers: Vec<_> = (0..writers)
            .map(|_| scope.spawn(|| (0..share).any(|_| journal.append(&record()).is_err())))
            .collect();
        writers
            .into_iter()
            .any(|writer| writer.join().unwrap_or(true))
    });
    let taken = begun.elapsed();
    if failed {
        return Err("a record was not written".into());
    }
    Ok(taken / (share * writers))
}

/// Returns what writing as many bytes takes at the least.
fn raw(records: u32, sync: bool) -> Result<Duration, Box<dyn Error>> {
    let dir = TempDir::new()?;
    let mut file = File::create(dir.path().join("raw"))?;
    let line = [b'x'; 2000];
    let begun = Instant::now();
    for _ in 0..records {
        file.write_all(&line)?;
        if sync {
            file.sync_data()?;
        }
    }
    Ok(begun.elapsed() / records)
}

/// Returns what the note of the end takes: written over, or as a new file over the old.
fn note(records: u32, renamed: bool) -> Result<Duration, Box<dyn Error>> {
    let dir = TempDir::new()?;
    let path = dir.path().join("head.json");
    let file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .open(&path)?;
    let begun = Instant::now();
    for _ in 0..records {
        if renamed {
            write_beside(&path)?;
        } else {
            file.write_all_at(&[b'x'; 512], 0)?;
        }
    }
    Ok(begun.elapsed() / records)
}

fn write_beside(path: &Path) -> Result<(), Box<dyn Error>> {
    let temporary = path.with_extension("new");
    fs::write(&temporary, [b'x'; 512])?;
    Ok(fs::rename(&temporary, path)?)
}

fn record() -> Record {
    Record::Refused(Box::new(Refused {
        contract: "observe".to_owned(),
        point: "any".to_owned(),
        count: None,
        command: None,
        hook: "guard".to_owned(),
        // As long as a start record.
        killed_by: None,
        message: "x".repeat(1500),
        peer: PeerLine {
            pid: None,
            remote: None,
            uid: 0,
        },
        profile: None,
        reason: "OVERLOADED".to_owned(),
        released: false,
        request_id: String::new(),
        run_id: None,
        session: String::new(),
        trace: None,
        workspace: None,
    }))
}

/// The number of turns of each way.
const ROUNDS: u32 = 20;
