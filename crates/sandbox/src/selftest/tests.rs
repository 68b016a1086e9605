use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tempfile::TempDir;

use hookjail_base::model::{Peer, ProfileName, axis::Demand};
use hookjail_policy::{Metadata, Network, Registry, Spawn, environment::Variables};

use super::*;
use crate::{
    Absent, Claims, End, HookTask, HookUsers, Host, Noop, OwnUids, Runner, SandboxParts, Starting,
    Unenforceable,
    landlock::{Landlock, start::start},
    linux,
    process::Supervision,
    program::{OpenedFor, Program, digest::DigestCache},
    rootfs::View,
    seccomp::FilterSpec,
};

const ENFORCED: Coverage = Coverage::Enforced { by: "a promise" };

/// Returns every axis that a backend can claim.
fn claimable() -> Vec<Axis> {
    Axis::ALL
        .into_iter()
        .filter(|&axis| is_claimed(axis))
        .collect()
}

fn claim(claims: &mut Claims, axis: Axis) {
    let claimed = match axis {
        Axis::Cpu => &mut claims.cpu,
        Axis::Devices => &mut claims.devices,
        Axis::Environment | Axis::Output | Axis::Time => panic!("`{axis}` cannot be claimed"),
        Axis::Execute => &mut claims.execute,
        Axis::Ipc => &mut claims.ipc,
        Axis::Memory => &mut claims.memory,
        Axis::Metadata => &mut claims.metadata,
        Axis::Network => &mut claims.network,
        Axis::Pids => &mut claims.pids,
        Axis::Read => &mut claims.read,
        Axis::Spawn => &mut claims.spawn,
        Axis::Write => &mut claims.write,
    };
    *claimed = ENFORCED;
}

/// Claims to enforce one axis, and does nothing at all.
#[derive(Debug)]
struct Idle(Axis);

impl Backend for Idle {
    fn name(&self) -> BackendName {
        BackendName::LANDLOCK
    }

    fn probe(&self) -> Result<Host, Absent> {
        Ok(Host { landlock_abi: 0 })
    }

    fn prepare(&self, policy: &Policy) -> Result<Prepared, Unenforceable> {
        let mut claims = Claims::NONE;
        claim(&mut claims, self.0);
        Prepared::covering(policy, self.name(), claims)
    }

    fn start<'a>(&'a self, runner: &'a Runner, task: Task<'a>) -> Starting<'a> {
        Box::pin(linux::start_unconfined(runner, task))
    }
}

/// Claims an axis beyond those of Landlock and seccomp, enforced with a gap.
#[derive(Debug)]
struct Lax {
    also: Option<Axis>,
    honest: Landlock,
    open: fn(&mut FilterSpec),
}

impl Backend for Lax {
    fn name(&self) -> BackendName {
        self.honest.name()
    }

    fn probe(&self) -> Result<Host, Absent> {
        self.honest.probe()
    }

    fn prepare(&self, policy: &Policy) -> Result<Prepared, Unenforceable> {
        let Ok(Host { landlock_abi }) = self.probe() else {
            panic!("these tests need Landlock");
        };
        let mut claims = self.honest.claims(policy, landlock_abi);
        if let Some(axis) = self.also {
            claim(&mut claims, axis);
        }
        Prepared::covering(policy, self.name(), claims)
    }

    fn start<'a>(&'a self, runner: &'a Runner, task: Task<'a>) -> Starting<'a> {
        let Ok(Host { landlock_abi }) = self.probe() else {
            panic!("these tests need Landlock");
        };
        let mut spec = FilterSpec::new(task.policy, landlock_abi);
        (self.open)(&mut spec);
        Box::pin(async move { start(runner, self.name(), Some(&spec), task).await })
    }
}

/// A backend that delegates to another one and counts.
#[derive(Debug)]
struct Counting {
    started: Arc<AtomicUsize>,
    other: Landlock,
}

impl Backend for Counting {
    fn name(&self) -> BackendName {
        BackendName::of_test("counting")
    }

    fn probe(&self) -> Result<Host, Absent> {
        self.other.probe()
    }

    fn prepare(&self, policy: &Policy) -> Result<Prepared, Unenforceable> {
        let Ok(Host { landlock_abi }) = self.probe() else {
            panic!("these tests need Landlock");
        };
        let claims = self.other.claims(policy, landlock_abi);
        Prepared::covering(policy, self.name(), claims)
    }

    fn start<'a>(&'a self, runner: &'a Runner, task: Task<'a>) -> Starting<'a> {
        self.started.fetch_add(1, Ordering::Relaxed);
        self.other.start(runner, task)
    }
}

/// An axis, and the change that leaves it open.
type Gap = (Axis, fn(&mut FilterSpec));

/// Returns a shipped profile with every axis optional. No claim is needed to serve it.
fn wanting(name: &str) -> Policy {
    let registry = Registry::builtin().unwrap();
    let policy = registry.find(&ProfileName::parse(name).unwrap()).unwrap();
    Policy {
        demands: Axes::from_fn(|_| Demand::Wanted),
        ..Policy::clone(policy)
    }
}

fn pool() -> OwnUids {
    match own_uids() {
        true => OwnUids::for_users(HookUsers::default()),
        false => OwnUids::NONE,
    }
}

fn own_uids() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Makes a sandbox of one backend.
fn sandbox(backend: impl Backend + 'static) -> (Confinement, TempDir) {
    let directory: TempDir = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let parts = SandboxParts::in_directory(directory.path(), vec![Box::new(backend)]).unwrap();
    (Confinement::new(parts).unwrap(), directory)
}

/// Confirms one backend with real children.
async fn stand(backend: impl Backend + 'static, policy: &Policy) -> BackendStatus {
    let (sandbox, _directory) = sandbox(backend);
    let mut standings = sandbox.survey(policy).await;
    assert_eq!(standings.len(), 1);
    standings.remove(0)
}

/// Returns the axis on which a backend is not confirmed, and the cause.
#[track_caller]
fn caught(standing: BackendStatus) -> (Option<Axis>, String) {
    match standing {
        BackendStatus::Serves(serves) => panic!("the backend is confirmed: {:?}", serves.1),
        BackendStatus::Skipped(passed_over) => {
            assert_eq!(passed_over.refusal.reason, Reason::BackendUnconfirmed);
            let (_, unconfirmed) = passed_over.failed.unwrap();
            (unconfirmed.axis, unconfirmed.why.clone())
        }
    }
}

#[tokio::test]
async fn a_backend_that_claims_an_axis_and_does_nothing_is_caught_on_that_axis() {
    for policy in [wanting("strict"), wanting("network")] {
        for axis in claimable() {
            // The number of tasks is the uid's and the runner's: under a root daemon this limit holds under every backend.
            if axis == Axis::Pids && own_uids() {
                let standing = stand(Idle(axis), &policy).await;
                assert!(standing.serves(), "{standing:?}");
                continue;
            }
            let (caught_axis, why) = caught(stand(Idle(axis), &policy).await);
            assert_eq!(caught_axis, Some(axis), "{}: {why}", policy.name);
        }
    }
    // The positive controls: a backend that claims nothing serves as that, and one that does what it claims is confirmed.
    let policy = wanting("strict");
    let standing = stand(Noop, &policy).await;
    assert!(standing.serves() && !standing.confines(), "{standing:?}");
    let standing = stand(Landlock::new(pool(), None), &policy).await;
    assert!(standing.serves() && standing.confines(), "{standing:?}");
}

/// Otherwise the denial would be reported for a hook with the process id of the dead child.
#[tokio::test]
async fn what_a_self_test_was_denied_is_forgotten_with_it() {
    let (sandbox, _directory) = sandbox(Landlock::new(pool(), None));
    assert!(sandbox.survey(&wanting("strict")).await[0].serves());
    assert!(sandbox.runner.launcher.pools.denials.is_empty());
}

#[tokio::test]
async fn a_backend_that_leaves_one_axis_open_is_caught_on_it() {
    let lax = |open| Lax {
        also: None,
        honest: Landlock::new(pool(), None),
        open,
    };
    let policy = wanting("strict");
    assert!(stand(lax(|_| {}), &policy).await.serves());
    let opened: [Gap; 3] = [
        (Axis::Network, |spec| spec.network = Network::Outbound),
        (Axis::Spawn, |spec| spec.spawn = Spawn::Processes),
        (Axis::Metadata, |spec| spec.metadata = Metadata::Change),
    ];
    for (axis, open) in opened {
        let (caught_axis, why) = caught(stand(lax(open), &policy).await);
        assert_eq!(caught_axis, Some(axis), "{why}");
    }
}

#[tokio::test]
async fn a_backend_that_claims_more_than_it_enforces_is_caught_on_what_it_adds() {
    // Axes that Landlock and seccomp leave open or enforce in part; tasks only where no uid counts them.
    let more = [Axis::Cpu, Axis::Memory, Axis::Metadata, Axis::Pids];
    for axis in more {
        if axis == Axis::Pids && own_uids() {
            continue;
        }
        let lax = Lax {
            also: Some(axis),
            honest: Landlock::new(pool(), None),
            open: |_| {},
        };
        let (caught_axis, why) = caught(stand(lax, &wanting("strict")).await);
        assert_eq!(caught_axis, Some(axis), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_is_all_that_its_four_functions_say() {
    let started = Arc::new(AtomicUsize::new(0));
    let (sandbox, directory) = sandbox(Counting {
        started: Arc::clone(&started),
        other: Landlock::new(pool(), None),
    });
    let policy = wanting("strict");
    let sandbox = Arc::new(sandbox);
    let selected = sandbox.select(&policy, &policy.digest).await.unwrap();
    assert_eq!(selected.prepared.backend.as_str(), "counting");
    let of_self_test = started.load(Ordering::Relaxed);
    assert!(of_self_test > 0);

    let outside = directory.path().join("outside");
    let line = format!(
        "read -r event; echo \"$event\"; echo x > here && echo made; echo x > {}",
        outside.display()
    );
    let argv = ["/bin/sh", "-c", &line].map(OsString::from);
    let host = View::new(None, &policy.files);
    let program = Program::open(
        argv[0].clone().into(),
        &argv,
        &[],
        None,
        OpenedFor::Oneself,
        host,
    );
    let program = program
        .unwrap()
        .hash(&DigestCache::default(), &AtomicBool::new(false));
    let program = program.unwrap();
    let (cancel, deadline) = (CancellationToken::new(), Instant::now() + PROBE_TIMEOUT);
    let caller = Peer::oneself();
    let hook = sandbox
        .start(HookTask {
            caller: &caller,
            cancel: &cancel,
            deadline,
            environment: &Variables::default(),
            opened: &sandbox.open_system(&policy).unwrap(),
            policy: &policy,
            prepared: &selected.prepared,
            program: &program,
            session: "",
            stdin: &Bytes::from_static(b"the event\n"),
            workspace: None,
        })
        .await
        .unwrap();
    let ended = hook.finish(Supervision::until(deadline)).await.unwrap();
    let End::Ran(ran) = ended.end else {
        panic!("{ended:?}");
    };
    // Forbidden attempts failed; the rest is the positive control.
    assert_eq!(ran.stdout.head, b"the event\nmade\n", "{ran:?}");
    assert!(!outside.exists());
    assert!(ended.setup.confirmed);
    assert_eq!(started.load(Ordering::Relaxed), of_self_test + 1);
}

#[test]
fn a_claim_counts_only_with_an_attempt_that_failed_beside_one_that_succeeded() {
    let leg = |held| ProbeResult::new("try it", held, "EACCES".to_owned());
    for axis in claimable() {
        let axes = Axes::from_fn(|each| {
            if each == axis {
                ENFORCED
            } else {
                Coverage::Ignored
            }
        });
        let found = |control: &[bool], deny: &[bool]| {
            let proof = AxisProof {
                axis,
                control: control.iter().copied().map(leg).collect(),
                deny: deny.iter().copied().map(leg).collect(),
            };
            unproved(&axes, &[proof]).map(|(unproved, _)| unproved)
        };
        assert_eq!(found(&[true], &[true]), None);
        for (control, deny) in [
            (&[][..], &[][..]),
            (&[true], &[]),
            (&[], &[true]),
            (&[true], &[true, false]),
            (&[true, false], &[true]),
        ] {
            assert_eq!(found(control, deny), Some(axis), "{control:?} {deny:?}");
        }
        assert_eq!(
            unproved(&axes, &[]).map(|(unproved, _)| unproved),
            Some(axis)
        );
    }
    // A claim that holds in part needs no attempt, but none may end otherwise than it must. An ignored axis needs nothing.
    let found = |coverage: Coverage, held| {
        let axes = Axes::from_fn(|_| coverage.clone());
        let proof = AxisProof {
            axis: Axis::Metadata,
            control: Vec::new(),
            deny: vec![leg(held)],
        };
        unproved(&axes, &[proof]).map(|(unproved, _)| unproved)
    };
    let partly = Coverage::Degraded {
        by: "half",
        gap: "the other half",
    };
    assert_eq!(found(partly.clone(), true), None);
    assert_eq!(found(partly, false), Some(Axis::Metadata));
    assert_eq!(found(Coverage::Ignored, false), None);
}
