//! Tests of the simulated disk with redb on it: every crash point, a planted bug that must be found, and full disks.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{
    Builder, ConcurrencyMode, Database, DatabaseError, ReadOnlyDatabase, ReadableDatabase, ReadableTable, StorageError,
    TableDefinition, TableError, TransactionError,
};

use super::*;

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("commits");

const SEEDS: [u64; 2] = [1, 0x00c0_ffee];

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// How far a workload came before something failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    opened: bool,
    acknowledged: u64,
    /// Whether any call, closing included, reported an error.
    failed: bool,
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_concurrency_mode(ConcurrencyMode::SingleWriter).set_cache_size(1 << 20);
    builder
}

fn open(disk: &SimulatedDisk) -> Result<Database, DatabaseError> {
    builder().create_with_backend(disk.backend())
}

fn open_read_only(disk: &SimulatedDisk) -> Result<ReadOnlyDatabase, DatabaseError> {
    builder().open_read_only_with_backend(disk.backend())
}

/// Long enough that the table splits its pages within a few commits.
fn value_of(key: u64) -> Vec<u8> {
    let mut random = Random(key);
    std::iter::repeat_with(|| random.next().to_le_bytes()).take(100).flatten().collect()
}

fn commit(database: &Database, key: u64) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    transaction.set_quick_repair(true);
    transaction.open_table(TABLE)?.insert(key, value_of(key).as_slice())?;
    transaction.commit()?;
    Ok(())
}

/// Commits the keys from `first` to `end`, one each, until something fails, and closes the database.
fn run_workload(disk: &SimulatedDisk, keys: Range<u64>) -> Progress {
    let mut progress = Progress::default();
    let Ok(database) = open(disk) else {
        return Progress { failed: true, ..progress };
    };
    progress.opened = true;
    for key in keys {
        if commit(&database, key).is_err() {
            progress.failed = true;
            break;
        }
        progress.acknowledged += 1;
    }
    progress.failed |= database.close().is_err();
    progress
}

/// How many commits the database holds, if they are exactly a prefix of those that were made.
fn committed_prefix(database: &impl ReadableDatabase) -> Outcome<u64> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(TABLE) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(0),
        opened => opened?,
    };
    let mut expected = 0;
    for row in table.iter()? {
        let (key, value) = row?;
        if key.value() != expected || value.value() != value_of(expected) {
            return Err(format!("row {} is in the place of commit {expected}", key.value()).into());
        }
        expected += 1;
    }
    Ok(expected)
}

/// Opens what a crash left and checks that no acknowledged commit is lost and at most one more is there.
fn check_survivors(image: Vec<u8>, progress: Progress) -> Outcome {
    let disk = SimulatedDisk::from_image(image);
    let database = match open(&disk) {
        // A crash before the magic number is durable leaves a file that redb refuses; nothing was promised by then.
        Err(_) if !progress.opened => return Ok(()),
        opened => opened?,
    };
    let found = committed_prefix(&database)?;
    let acknowledged = progress.acknowledged;
    if found != acknowledged && found != acknowledged + 1 {
        return Err(format!("{acknowledged} commits were acknowledged and {found} are there").into());
    }
    commit(&database, found)?;
    database.close()?;
    Ok(())
}

fn check_every_tear(disk: &SimulatedDisk, progress: Progress) -> Outcome {
    for tear in Tear::ALL {
        let seeds = if matches!(tear, Tear::Prefix | Tear::Subset) { &SEEDS[..] } else { &SEEDS[..1] };
        for seed in seeds {
            let image = disk.crash_image(*seed, tear);
            // redb trusts what a two-phase commit points to and panics where a lying disk broke that promise.
            let checked =
                std::panic::catch_unwind(|| check_survivors(image, progress).map_err(|error| error.to_string()))
                    .unwrap_or_else(|_| Err("redb panicked".to_owned()));
            checked.map_err(|error| format!("{tear:?} with seed {seed}, {progress:?}: {error}"))?;
        }
    }
    Ok(())
}

/// Loses power at every operation of a workload in turn; gives the number of operations there were.
fn sweep_power_losses(keys: u64, planted: Option<Fault>) -> Outcome<u64> {
    for ordinal in 0.. {
        let disk = SimulatedDisk::new();
        disk.plan(Fault { at: ordinal, kind: FaultKind::PowerLoss });
        planted.into_iter().for_each(|fault| disk.plan(fault));
        let progress = run_workload(&disk, 0..keys);
        if !disk.has_lost_power() {
            return Ok(ordinal);
        }
        check_every_tear(&disk, progress).map_err(|error| format!("power loss at {ordinal}: {error}"))?;
    }
    Ok(0)
}

#[test]
fn every_power_loss_leaves_a_prefix_of_the_commits() -> Outcome {
    let operations = sweep_power_losses(16, None)?;
    assert!(operations > 150, "16 commits take more than {operations} operations");
    Ok(())
}

#[test]
fn a_planted_lying_sync_is_found() {
    let lie = Fault { at: 20, kind: FaultKind::LyingSync { times: Times::Forever } };
    let found = sweep_power_losses(5, Some(lie));
    assert!(found.is_err(), "the sweep missed a disk that never syncs");
    let disk = SimulatedDisk::new();
    disk.plan(lie);
    let progress = run_workload(&disk, 0..5);
    assert_eq!((progress.acknowledged, progress.failed), (5, false), "a lie is not noticed while the power lasts");
    let lost = check_survivors(disk.crash_image(SEEDS[0], Tear::DropAll), progress);
    assert!(lost.is_err(), "acknowledged commits were lost");
}

/// Refuses each operation of a workload in turn; the error must surface, and no acknowledged commit may be lost.
fn sweep_refusals(keys: u64, error: DiskError, times: Times) -> Outcome {
    for ordinal in 0.. {
        let disk = SimulatedDisk::new();
        disk.plan(Fault { at: ordinal, kind: FaultKind::Error { error, times } });
        let progress = run_workload(&disk, 0..keys);
        if disk.operations() <= ordinal {
            assert!(!progress.failed, "an error without a fault");
            return Ok(());
        }
        assert!(progress.failed, "the refusal of operation {ordinal} was swallowed");
        disk.clear_faults();
        check_every_tear(&disk, progress).map_err(|found| format!("{error:?} at {ordinal}: {found}"))?;
        check_survivors(disk.image(), progress)
            .map_err(|found| format!("{error:?} at {ordinal}, no crash: {found}"))?;
    }
    Ok(())
}

#[test]
fn a_disk_that_is_full_once_fails_the_commit_and_loses_nothing() -> Outcome {
    sweep_refusals(8, DiskError::NoSpace, Times::Once)
}

#[test]
fn a_disk_that_fails_for_good_loses_nothing() -> Outcome {
    sweep_refusals(4, DiskError::InputOutput, Times::Forever)
}

#[test]
fn a_process_that_goes_on_after_a_refused_sync_loses_nothing() -> Outcome {
    for ordinal in 0.. {
        let disk = SimulatedDisk::new();
        let error = DiskError::InputOutput;
        disk.plan(Fault { at: ordinal, kind: FaultKind::Error { error, times: Times::Once } });
        let first = run_workload(&disk, 0..4);
        if !first.opened && disk.operations() > ordinal {
            continue;
        }
        disk.clear_faults();
        let found = committed_prefix(&open(&disk)?)?;
        let second = run_workload(&disk, found..found + 3);
        assert!(!second.failed, "{second:?} after {first:?}");
        let progress = Progress { acknowledged: found + second.acknowledged, ..second };
        check_every_tear(&disk, progress).map_err(|lost| format!("{error:?} at {ordinal}: {lost}"))?;
        if !first.failed {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn a_database_refuses_further_use_after_a_failed_commit() -> Outcome {
    let disk = SimulatedDisk::new();
    let database = open(&disk)?;
    commit(&database, 0)?;
    let error = DiskError::NoSpace;
    disk.plan(Fault { at: disk.operations(), kind: FaultKind::Error { error, times: Times::Once } });
    let refused = commit(&database, 1);
    assert!(matches!(&refused, Err(redb::Error::Io(error)) if error.raw_os_error() == Some(28)), "{refused:?}");
    let after = commit(&database, 1);
    assert!(matches!(after, Err(redb::Error::PreviousIo)), "{after:?}");
    let read = database.begin_read().err();
    assert!(matches!(read, Some(TransactionError::Storage(StorageError::PreviousIo))), "{read:?}");
    let operations = disk.operations();
    let closed = database.close();
    assert!(matches!(closed, Err(DatabaseError::Storage(StorageError::PreviousIo))), "{closed:?}");
    assert_eq!(disk.operations(), operations, "closing after an error leaves the file alone");
    let reopened = open(&disk)?;
    assert_eq!(committed_prefix(&reopened)?, 1);
    commit(&reopened, 1)?;
    Ok(())
}

#[test]
fn readers_beside_the_writer_follow_its_commits() -> Outcome {
    let disk = SimulatedDisk::new();
    let writer = open(&disk)?;
    commit(&writer, 0)?;
    let reader = open_read_only(&disk)?;
    let second_reader = open_read_only(&disk)?;
    let before = reader.begin_read()?;
    commit(&writer, 1)?;
    assert_eq!(committed_prefix(&reader)?, 2, "a new read transaction sees the commit");
    assert_eq!(committed_prefix(&second_reader)?, 2);
    assert_eq!(before.open_table(TABLE)?.iter()?.count(), 1, "an old one keeps its snapshot");
    for key in 2..40 {
        commit(&writer, key)?;
    }
    assert_eq!(before.open_table(TABLE)?.iter()?.count(), 1, "and nothing reuses its pages");
    Ok(())
}

#[test]
fn readers_in_other_threads_see_only_whole_commits() -> Outcome {
    let disk = SimulatedDisk::new();
    let writer = open(&disk)?;
    commit(&writer, 0)?;
    let finished = AtomicBool::new(false);
    let read_until_finished = || -> Result<(), String> {
        let reader = open_read_only(&disk).map_err(|error| error.to_string())?;
        let mut seen = 0;
        while !finished.load(Ordering::SeqCst) {
            let found = committed_prefix(&reader).map_err(|error| error.to_string())?;
            if found < seen {
                return Err(format!("{found} commits after {seen}"));
            }
            seen = found;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(read_until_finished), scope.spawn(read_until_finished)];
        let written = (1..30).try_for_each(|key| commit(&writer, key));
        finished.store(true, Ordering::SeqCst);
        written?;
        for reader in readers {
            reader.join().map_err(|_| "a reader panicked")??;
        }
        Ok(())
    })
}

#[test]
fn a_restart_ends_the_processes_that_had_the_disk_open() -> Outcome {
    let disk = SimulatedDisk::new();
    let before = open(&disk)?;
    commit(&before, 0)?;
    disk.plan(Fault { at: disk.operations() + 2, kind: FaultKind::PowerLoss });
    assert!(commit(&before, 1).is_err());
    assert!(open(&disk).is_err(), "the power is off");
    disk.restart(3, Tear::Subset);
    assert!(before.begin_read().is_err(), "the process died with the power");
    let after = open(&disk)?;
    assert_eq!(committed_prefix(&after)?, 1);
    commit(&after, 1)?;
    Ok(())
}

#[test]
fn conflicting_opens_are_reported_as_files_report_them() -> Outcome {
    let disk = SimulatedDisk::new();
    let writer = open(&disk)?;
    commit(&writer, 0)?;
    assert!(matches!(open(&disk), Err(DatabaseError::DatabaseAlreadyOpen)));
    let exclusive = Builder::new().create_with_backend(disk.backend());
    assert!(matches!(exclusive, Err(DatabaseError::DatabaseAlreadyOpen)));
    let reader = open_read_only(&disk)?;
    writer.close()?;
    let exclusive = Builder::new().create_with_backend(disk.backend());
    assert!(matches!(exclusive, Err(DatabaseError::DatabaseAlreadyOpen)), "a reader excludes an exclusive writer");
    reader.close()?;
    Builder::new().create_with_backend(disk.backend())?.close()?;
    Ok(())
}

#[test]
fn a_killed_process_leaves_its_writes_and_no_locks() -> Outcome {
    let disk = SimulatedDisk::new();
    let killed = open(&disk)?;
    commit(&killed, 0)?;
    disk.kill_processes();
    assert!(matches!(open_read_only(&disk), Err(DatabaseError::RepairAborted)), "a reader does not repair");
    let database = open(&disk)?;
    assert_eq!(committed_prefix(&database)?, 1);
    assert!(commit(&killed, 1).is_err());
    drop(killed);
    commit(&database, 1)?;
    Ok(())
}

#[test]
fn a_failed_sync_leaves_writes_in_doubt_that_later_syncs_do_not_settle() -> Outcome {
    let disk = SimulatedDisk::new();
    let backend = disk.backend();
    backend.set_len(3 * 512)?;
    backend.sync_data()?;
    backend.write(0, &[1; 512])?;
    let error = DiskError::InputOutput;
    disk.plan(Fault { at: disk.operations(), kind: FaultKind::Error { error, times: Times::Once } });
    assert!(backend.sync_data().is_err());
    backend.write(512, &[2; 512])?;
    backend.sync_data()?;
    assert_eq!(disk.image()[..1024], [[1; 512], [2; 512]].concat());
    assert_eq!(disk.crash_image(0, Tear::DropAll)[..1024], [[0; 512], [2; 512]].concat());
    assert_eq!(disk.crash_image(0, Tear::KeepAll)[..1024], [[1; 512], [2; 512]].concat());
    backend.write(0, &[3; 512])?;
    backend.sync_data()?;
    for tear in Tear::ALL {
        assert_eq!(disk.crash_image(7, tear)[..1024], [[3; 512], [2; 512]].concat(), "rewritten and synced, {tear:?}");
    }
    Ok(())
}

#[test]
fn seeds_replay() {
    let crashed = || {
        let disk = SimulatedDisk::new();
        disk.plan(Fault { at: 37, kind: FaultKind::PowerLoss });
        run_workload(&disk, 0..10);
        disk
    };
    let (first, second) = (crashed(), crashed());
    assert!(first.has_lost_power());
    for tear in Tear::ALL {
        assert_eq!(first.crash_image(5, tear), second.crash_image(5, tear));
    }
    assert_ne!(first.crash_image(5, Tear::DropAll), first.crash_image(5, Tear::KeepAll));
    let image = first.crash_image(5, Tear::Subset);
    first.restart(5, Tear::Subset);
    assert_eq!(first.image(), image);
}

#[test]
fn damage_is_seen_at_once_and_is_durable() -> Outcome {
    let disk = SimulatedDisk::from_image(vec![0xff; 2048]);
    disk.flip_bit(3, 0);
    disk.zero_range(512..1024);
    disk.truncate(1500);
    let image = disk.image();
    assert_eq!((image.len(), image[3], image[512], image[1023], image[1024]), (1500, 0xfe, 0, 0, 0xff));
    assert_eq!(disk.crash_image(0, Tear::DropAll), image);
    disk.plan(Fault { at: disk.reads() + 1, kind: FaultKind::ReadError { times: Times::Once } });
    let backend = disk.backend();
    let mut byte = [0];
    backend.read(0, &mut byte)?;
    assert_eq!(backend.read(0, &mut byte).err().and_then(|error| error.raw_os_error()), Some(5));
    backend.read(0, &mut byte)?;
    assert!(backend.read(1500, &mut byte).is_err(), "past the end");
    Ok(())
}

#[test]
fn a_recording_gives_the_images_that_the_disk_gave() {
    let disk = SimulatedDisk::from_image(vec![9; 2 * SECTOR_BYTES]);
    let backend = disk.backend();
    backend.write(0, &[1; SECTOR_BYTES]).unwrap();
    disk.record();
    let first = disk.operations();
    let mut random = Random(3);
    let mut expected = Vec::new();
    let images = |image: &dyn Fn(u64, Tear) -> Vec<u8>| -> Vec<Vec<u8>> {
        Tear::ALL.iter().flat_map(|tear| (0..3).map(|seed| image(seed, *tear))).collect()
    };
    expected.push(images(&|seed, tear| disk.crash_image(seed, tear)));
    for number in 0..60u8 {
        match random.below(6) {
            0 => backend.sync_data().unwrap(),
            1 => backend.set_len(random.below(8 * SECTOR_BYTES) as u64).unwrap(),
            2 => {
                disk.plan(Fault {
                    at: disk.operations(),
                    kind: FaultKind::Error { error: DiskError::InputOutput, times: Times::Once },
                });
                assert!(backend.sync_data().is_err());
                disk.clear_faults();
            }
            _ => backend.write(random.below(4 * SECTOR_BYTES) as u64, &[number; SECTOR_BYTES]).unwrap(),
        }
        expected.push(images(&|seed, tear| disk.crash_image(seed, tear)));
    }
    let recording = disk.recording().unwrap();
    let mut points = recording.crash_points();
    for (step, expected) in expected.iter().enumerate() {
        assert_eq!(points.ordinal(), first + step as u64);
        assert_eq!(&images(&|seed, tear| points.crash_image(seed, tear)), expected, "step {step}");
        assert_eq!(points.advance(), step < 60);
    }
}
