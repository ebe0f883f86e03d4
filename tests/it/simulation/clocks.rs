//! A clock that is set back, stands still or leaps: the order of the log is that of its positions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant as Moment;

use cognilog::{Engine, Instant, Store};
use cognilog_storage::StoreOptions;

use super::life::*;
use super::oracle::Oracle;
use super::workload::{Plan, Step};
use crate::common::Random;

#[test]
fn a_clock_that_goes_back_or_stands_still_changes_no_order() {
    let (seed, began) = (seed(), Moment::now());
    let lives = if is_full() { 40 } else { 4 };
    for life in seed..seed + lives {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        Store::create(&path, &limits(life)).unwrap();
        // Each look at the clock is somewhere within a century, before or behind the last one, or the same.
        let looks = Arc::new(AtomicU64::new(0));
        let clock = move || {
            let look = looks.fetch_add(1, Ordering::SeqCst);
            Instant(Random(life ^ (look / 2)).below(100 * 365 * 86_400_000_000) as i64)
        };
        let clock: cognilog_storage::Clock = Arc::new(clock);
        let open = || {
            let mut options = StoreOptions::new(cognilog_projections::folds());
            options.limits = limits(life);
            options.clock = Arc::clone(&clock);
            Engine::on_store(Store::open(&path, options).unwrap())
        };
        let plan = Plan::new(life, 12);
        let oracle = Oracle::new(plan.appends.clone());
        let mut engine = open();
        for (done, step) in plan.steps.iter().filter(|step| matches!(step, Step::Append(_))).enumerate() {
            let Step::Append(number) = step else { continue };
            engine.submit(plan.appends[*number].to_append()).unwrap();
            if done % 4 == 3 {
                engine.close().unwrap();
                engine = open();
            }
        }
        oracle.judge(&engine, (oracle.all(), oracle.all())).unwrap();
        oracle.judge_rebuilt(&engine).unwrap();
    }
    tell("clock steps", seed, began, &format!("{lives} lives: 0 out of order"));
}
