use std::{
    io::Write,
    os::{
        fd::OwnedFd,
        unix::{fs::PermissionsExt, net::UnixStream},
    },
    path::Path,
};

use proptest::prelude::*;
use tempfile::{NamedTempFile, TempDir};

use super::*;

fn digest(cache: &DigestCache, file: &File) -> Result<String, HashError> {
    cache.digest(file, false, &AtomicBool::new(false))
}

#[test]
fn the_empty_file_has_its_known_digest() {
    let file = tempfile::tempfile().unwrap();
    assert_eq!(
        hash_file(&file).unwrap(),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
}

#[test]
fn the_whole_file_is_hashed_wherever_its_offset_stands() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"abc").unwrap();
    assert_eq!(
        hash_file(&file).unwrap(),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
}

#[test]
fn what_is_no_regular_file_is_refused() {
    let dir = TempDir::new().unwrap();
    let directory = File::open(dir.path()).unwrap();
    let socket = File::from(OwnedFd::from(UnixStream::pair().unwrap().0));
    for file in [directory, socket, File::open("/dev/zero").unwrap()] {
        assert!(matches!(hash_file(&file), Err(HashError::Irregular)));
    }
}

#[test]
fn a_huge_sparse_file_is_refused_unread() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(MAX_FILE_BYTES + 1).unwrap();
    assert!(
        matches!(hash_file(&file), Err(HashError::TooLarge { bytes }) if bytes == MAX_FILE_BYTES + 1)
    );
}

#[test]
fn a_change_with_restored_size_and_modification_time_is_seen() {
    let cache = DigestCache::default();
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(b"one").unwrap();
    let modified = SystemTime::now() - Duration::from_secs(3600);
    file.as_file().set_modified(modified).unwrap();
    let before = digest(&cache, file.as_file()).unwrap();

    std::fs::write(file.path(), b"two").unwrap();
    file.as_file().set_modified(modified).unwrap();

    assert_ne!(digest(&cache, file.as_file()).unwrap(), before);
}

#[test]
fn a_hash_that_nobody_waits_for_ends() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(MAX_FILE_BYTES).unwrap();
    let hashed = DigestCache::default().digest(&file, false, &AtomicBool::new(true));
    assert!(matches!(hashed, Err(HashError::Abandoned)));
}

/// Caching a file that is not root's depends on its file system: not on tmpfs. A store through a mapping leaves no trace there.
#[test]
fn a_file_of_anybody_is_steady_only_under_a_lease_and_where_stores_change_times() {
    let file = NamedTempFile::new().unwrap();
    let mode = std::fs::Permissions::from_mode(0o666);
    file.as_file().set_permissions(mode).unwrap();
    let metadata = file.as_file().metadata().unwrap();
    let later = SystemTime::now() + Duration::from_secs(60);
    let is_steady = |leased| steady(file.as_file(), &metadata, leased, later);
    assert!(!is_steady(false));
    assert_eq!(is_steady(true), stores_change_times(file.as_file()));
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        let in_memory = tempfile::tempfile_in(shared).unwrap();
        assert!(!stores_change_times(&in_memory));
    }
}

#[test]
fn a_file_just_changed_is_not_remembered() {
    let cache = DigestCache::default();
    let file = NamedTempFile::new().unwrap();

    digest(&cache, file.as_file()).unwrap();

    assert!(cache.known().digests.is_empty());
}

#[test]
fn a_file_is_steady_only_if_root_alone_writes_it_and_both_times_are_old() {
    let file = NamedTempFile::new().unwrap();
    file.as_file()
        .set_permissions(std::fs::Permissions::from_mode(0o755))
        .unwrap();
    let metadata = file.as_file().metadata().unwrap();
    let root = metadata.uid() == 0;
    let now = SystemTime::now();
    assert!(!steady(file.as_file(), &metadata, false, now));
    assert_eq!(
        steady(
            file.as_file(),
            &metadata,
            false,
            now + Duration::from_secs(60)
        ),
        root
    );

    file.as_file()
        .set_modified(now + Duration::from_secs(3600))
        .unwrap();
    assert!(!steady(
        file.as_file(),
        &file.as_file().metadata().unwrap(),
        false,
        now + Duration::from_secs(60)
    ));

    file.as_file().set_modified(now).unwrap();
    file.as_file()
        .set_permissions(std::fs::Permissions::from_mode(0o775))
        .unwrap();
    assert!(!steady(
        file.as_file(),
        &file.as_file().metadata().unwrap(),
        false,
        now + Duration::from_secs(60)
    ));
}

#[test]
fn a_program_of_the_system_is_remembered() {
    let file = File::open("/bin/sh").unwrap();
    assert!(
        steady(&file, &file.metadata().unwrap(), false, SystemTime::now()),
        "the system's shell is not root's, or brand-new"
    );
    let cache = DigestCache::default();

    let digests = [
        digest(&cache, &file).unwrap(),
        digest(&cache, &file).unwrap(),
        hash_file(&file).unwrap(),
    ];

    assert!(digests.iter().all(|digest| *digest == digests[0]));
    assert_eq!(cache.known().digests.len(), 1);
}

#[test]
fn the_oldest_digest_is_forgotten_first() {
    let metadata = tempfile::tempfile().unwrap().metadata().unwrap();
    let stamp = |inode| Stamp {
        inode,
        ..Stamp::new(&metadata)
    };
    let mut known = KnownDigests::default();

    for inode in 0..=u64::try_from(MAX_KNOWN).unwrap() {
        known.insert(stamp(inode), String::new());
    }

    assert_eq!(
        (known.digests.len(), known.order.len()),
        (MAX_KNOWN, MAX_KNOWN)
    );
    assert!(!known.digests.contains_key(&stamp(0)));
    assert!(known.digests.contains_key(&stamp(1)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chunks_make_no_difference(size in CHUNK_BYTES - 2..2 * CHUNK_BYTES + 2, seed in any::<u8>()) {
        let content: Vec<u8> = (0..size).map(|at| seed.wrapping_add(at.to_le_bytes()[0])).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content).unwrap();
        prop_assert_eq!(hash_file(&file).unwrap(), format!("{:x}", Sha256::digest(&content)));
    }
}
