//! Selects the older files to remove: all beyond the number to keep, unless a record in them is too young.

use std::{io, time::Duration};

use jiff::Timestamp;

use super::super::files::Older;

/// Returns how many files are removed of those beyond the number to keep, the oldest first.
///
/// `ages` are those of their newest records. A file whose newest record is younger than `least`, or of unknown age, stays with all after
/// it, so that no record is missing between two others. Without `least` no age is read.
pub(super) fn removed(
    beyond: usize,
    least: Duration,
    mut age: impl FnMut(usize) -> Option<Duration>,
) -> usize {
    if least.is_zero() {
        return beyond;
    }
    let is_old = |file: &usize| age(*file).is_some_and(|age| age >= least);
    (0..beyond).take_while(is_old).count()
}

/// Returns the age of a file's newest record. `None`: its time cannot be read.
///
/// A time in the future is from a clock that has been set back since, and counts as now.
pub(super) fn age(older: &Older, now: Timestamp) -> io::Result<Option<Duration>> {
    let time = older.newest_time()?;
    let time = time.and_then(|time| time.parse::<Timestamp>().ok());
    Ok(time.map(|time| Duration::try_from(now.duration_since(time)).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn a_file_stays_until_its_newest_record_is_old_enough() {
        let young = DAY.saturating_sub(Duration::from_nanos(1));
        for (ages, expected) in [
            (vec![], 0),
            (vec![Some(DAY)], 1),
            (vec![Some(young)], 0),
            (vec![Some(Duration::ZERO)], 0),
            (vec![None], 0),
            (vec![Some(3 * DAY), Some(2 * DAY), Some(young)], 2),
            // None is missing between two others, though a clock was set back.
            (vec![Some(3 * DAY), Some(young), Some(2 * DAY)], 1),
            (vec![None, Some(2 * DAY)], 0),
        ] {
            let removed = removed(ages.len(), DAY, |file| ages[file]);
            assert_eq!(removed, expected, "{ages:?}");
        }
    }

    #[test]
    fn without_an_age_the_number_alone_decides() {
        let number = removed(3, Duration::ZERO, |file| panic!("{file} was looked at"));
        assert_eq!(number, 3);
    }
}
