use hookjail_base::model::ProfileName;
use hookjail_policy::Registry;

use super::*;

fn somebody() -> Peer {
    Peer {
        gid: 1,
        groups: Arc::default(),
        pid: None,
        remote: None,
        uid: 1,
    }
}

fn question(command: &str, request_id: &str) -> Question {
    let registry = Registry::builtin().unwrap();
    let strict = ProfileName::parse("strict").unwrap();
    Question {
        hook: String::new(),
        peer: somebody(),
        request_id: request_id.to_owned(),
        subject: Subject::Command {
            command: command.to_owned(),
            diff: String::new(),
            digests: Vec::new(),
            policy: Arc::clone(registry.find(&strict).unwrap()),
        },
        why: String::new(),
        workspace: String::new(),
    }
}

fn ask(pending: &Pending, request_id: &str) -> Result<WaitingQuestion, NotAsked> {
    pending.ask(question("x", request_id), Duration::from_secs(60))
}

#[tokio::test]
async fn who_listens_to_one_request_hears_of_no_other() {
    let pending = Pending::default();
    let (mut listening, open) = pending.listen("mine");
    assert!(open.is_empty());
    assert!(pending.is_listened_to("mine") && !pending.is_listened_to("other"));

    let other = ask(&pending, "other").unwrap_err();
    let _mine = ask(&pending, "mine").unwrap();

    assert_eq!(other, NotAsked::NobodyListens);
    let Some(News::Asked(question)) = listening.next().await else {
        panic!("the question comes first");
    };
    assert_eq!(question.question.request_id, "mine");
    assert_eq!(pending.open("other").len(), 0);
    assert_eq!(pending.open("").len(), 1);
}

#[tokio::test]
async fn a_listener_that_is_too_slow_is_let_go_and_no_other_suffers() {
    let pending = Pending::default();
    let (mut slow, _) = pending.listen("");
    let (mut quick, _) = pending.listen("");
    for _ in 0..=MAX_NEWS {
        drop(ask(&pending, "").unwrap());
        for _ in 0..2 {
            assert!(quick.next().await.is_some());
        }
    }

    let mut heard = 0;
    while slow.next().await.is_some() {
        heard += 1;
    }

    assert_eq!(heard, MAX_NEWS);
    assert!(!slow.is_closed());
    drop(slow);
    assert!(pending.is_listened_to(""));
    drop(quick);
    assert!(!pending.is_listened_to(""));
}

#[tokio::test]
async fn no_more_questions_are_open_than_may_be() {
    let pending = Pending::default();
    let _listening = pending.listen("");
    let mut waiting: Vec<_> = (0..MAX_OPEN / 2)
        .map(|_| ask(&pending, "").unwrap())
        .collect();

    let refused = ask(&pending, "").unwrap_err();

    assert_eq!(refused, NotAsked::TooMany);
    // Others are asked about nevertheless.
    let peer = Peer {
        uid: 2,
        ..somebody()
    };
    let of_another = Question {
        peer,
        ..question("x", "")
    };
    let wait = Duration::from_secs(60);
    let _others = [(); MAX_OPEN / 4].map(|()| pending.ask(of_another.clone(), wait).unwrap());
    let refused = pending.ask(of_another, wait).unwrap_err();
    assert_eq!(refused, NotAsked::TooMany);
    waiting.truncate(1);
    assert!(ask(&pending, "").is_ok());
}

#[tokio::test]
async fn an_answer_for_good_is_for_what_is_the_same_and_nothing_else() {
    let pending = Pending::default();
    let _listening = pending.listen("");
    let wait = Duration::from_secs(60);
    let same = [(); 2].map(|()| pending.ask(question("x", ""), wait).unwrap());
    let other = pending.ask(question("y", ""), wait).unwrap();
    let always = Decided {
        by: somebody(),
        decision: OperatorAnswer::Always,
    };

    assert!(pending.decide(&same[0].id, always.clone()));

    let never = CancellationToken::new();
    for waiting in same {
        assert_eq!(waiting.answer(&never).await, Some(always.clone()));
    }
    let open: Vec<_> = pending
        .open("")
        .iter()
        .map(|open| open.id.clone())
        .collect();
    assert_eq!(open, std::slice::from_ref(&other.id));
    let no = Decided {
        decision: OperatorAnswer::No,
        ..always.clone()
    };
    assert!(pending.decide(&other.id, no.clone()));
    assert!(!pending.decide(&other.id, always));
    assert_eq!(other.answer(&never).await, Some(no));
}
