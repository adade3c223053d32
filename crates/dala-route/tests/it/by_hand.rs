//! Short histories, and what is to come of them.

use std::time::Duration;

use dala_route::{Ask, Lane, Limits, Member, Ran, Refusal, Refused, Route, Router, Standing, Ticket, Time, Word};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(millis: u64) -> Time {
    Time(ms(millis))
}

/// It would answer after so long, and each request makes that 10 ms longer.
fn says(wait: u64) -> Word {
    Word { expected_wait: [ms(wait); 3], each: ms(10), room: [100; 3], drains: false }
}

fn pure(deadline: u64) -> Ask {
    Ask { deadline: Some(at(deadline)), pure: true, ..Ask::default() }
}

/// Members from 1 on that said these waits now.
fn router(now: u64, waits: &[u64]) -> Router {
    let mut router = Router::new(Limits::default());
    for (member, wait) in (1..).zip(waits) {
        router.join(at(now), Member(member));
        router.heard(at(now), Member(member), says(*wait));
    }
    router
}

fn waits(router: &Router, now: u64, member: u64) -> u64 {
    router.expected_wait(at(now), Member(member), Lane::Default).unwrap().as_millis() as u64
}

fn why(answer: Result<Route, Refused>) -> Refusal {
    answer.unwrap_err().why
}

#[test]
fn the_shorter_wait_is_chosen() {
    for random in 0..100u64 {
        let mut router = router(0, &[200, 20]);
        let random = random.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        assert_eq!(router.ask(at(0), pure(1000), random).unwrap().member, Member(2));
    }
}

#[test]
fn members_that_are_alike_have_turns() {
    let mut router = router(0, &[20; 5]);
    let mut count = [0; 6];
    for number in 0..100u64 {
        let route = router.ask(at(0), pure(100_000), number.wrapping_mul(0x9E37_79B9_7F4A_7C15)).unwrap();
        count[route.member.0 as usize] += 1;
    }
    assert_eq!(count, [0, 20, 20, 20, 20, 20]);
}

#[test]
fn a_word_is_corrected_by_what_was_sent_and_by_time() {
    let mut router = router(0, &[50]);
    assert_eq!(waits(&router, 0, 1), 50);
    let first = router.ask(at(0), pure(1000), 0).unwrap();
    let second = router.ask(at(0), Ask { lane: Lane::Background, ..pure(1000) }, 0).unwrap();
    // What is below it does not make it wait.
    assert_eq!(waits(&router, 0, 1), 60);
    let background = router.expected_wait(at(0), Member(1), Lane::Background).unwrap();
    assert_eq!(background, ms(70));
    // Half of the 60 ms are over; in their place is half of what there usually is, which was 50 ms.
    assert_eq!(waits(&router, 30, 1), 55);
    assert_eq!(waits(&router, 60_000, 1), 50);
    // The next word counts what is there.
    router.answered(at(61), first.ticket, Some(says(80)));
    assert_eq!(router.expected_wait(at(61), Member(1), Lane::Default).unwrap(), ms(80) + ms(11));
    router.gone(at(61), second.ticket);
    assert!(router.holds_nothing());
}

/// It always says 10 ms, and takes 160.
#[test]
fn slow_members_are_found_by_their_answers() {
    let mut router = router(0, &[10, 40]);
    let mut slow = 0;
    for step in 0..50 {
        let now = 100 * step;
        let route = router.ask(at(now), pure(now + 1000), step << 32).unwrap();
        let (took, wait) = if route.member == Member(1) { (160, 10) } else { (40, 40) };
        slow += u64::from(took == 160);
        router.answered(at(now + took), route.ticket, Some(says(wait)));
    }
    assert!((1..15).contains(&slow), "{slow} of 50 to the slow one");
    assert!((80..170).contains(&waits(&router, 5000, 1)), "{}", waits(&router, 5000, 1));
}

#[test]
fn what_did_not_run_goes_to_another() {
    let mut router = router(0, &[10, 10, 10, 10]);
    let ask = Ask { pure: false, ..pure(1000) };
    let first = router.ask(at(0), ask, 1).unwrap();
    let second = router.refused(at(1), first.ticket, Some(says(500)), 2).unwrap();
    let third = router.lost(at(2), first.ticket, Ran::No, 3).unwrap();
    assert!(second.member != first.member && third.member != first.member && third.member != second.member);
    assert_eq!(why(router.refused(at(3), first.ticket, Some(says(500)), 4)), Refusal::TooOften { tries: 3 });
    assert_eq!(why(router.lost(at(4), first.ticket, Ran::No, 4)), Refusal::UnknownTicket);
    assert!(router.holds_nothing());
}

#[test]
fn what_may_have_run_is_repeated_only_if_it_is_pure() {
    let mut router = router(0, &[10, 10]);
    let pure_one = router.ask(at(0), pure(1000), 1).unwrap();
    let again = router.lost(at(1), pure_one.ticket, Ran::Perhaps, 1).unwrap();
    assert_ne!(again.member, pure_one.member);
    assert_eq!((pure_one.until, again.until), (Some(at(500)), Some(at(1000))), "there is a second, and no third");
    router.answered(at(20), again.ticket, Some(says(10)));
    let other = router.ask(at(20), Ask { pure: false, ..pure(1000) }, 1).unwrap();
    let refused = router.lost(at(21), other.ticket, Ran::Perhaps, 1).unwrap_err();
    assert_eq!(refused, Refused { why: Refusal::MayHaveRun, retry_after: Duration::ZERO });
}

#[test]
fn a_lost_member_is_tried_after_a_growing_time_by_one_request() {
    let mut router = router(0, &[10, 10]);
    let (mut now, mut rests) = (0, Vec::new());
    let lost = Member(2);
    router.trace(10_000);
    let bound = router.ask(at(0), Ask { only: Some(lost), ..pure(1000) }, 0).unwrap();
    assert_eq!(why(router.lost(at(0), bound.ticket, Ran::No, 0)), Refusal::Tried { tries: 1 });
    for _ in 0..4 {
        let Some(Standing::Rests { until }) = router.standing(lost) else { panic!() };
        rests.push((until.0.as_millis() as u64) - now);
        while at(now) < until {
            let route = router.ask(at(now), pure(now + 10_000), now).unwrap();
            assert_eq!(route.member, Member(1));
            router.answered(at(now), route.ticket, Some(says(10)));
            now += 1;
        }
        // Not one that may not be lost, as long as others come.
        let other = router.ask(at(now), Ask { pure: false, ..pure(now + 10_000) }, 0).unwrap();
        let probe = router.ask(at(now), pure(now + 1_000), 0).unwrap();
        let next = router.ask(at(now), pure(now + 1_000), 0).unwrap();
        assert_eq!([other.member, probe.member, next.member], [Member(1), lost, Member(1)]);
        assert_eq!(router.standing(lost), Some(Standing::Tried { ticket: probe.ticket }));
        // There is time for another; after that there is none.
        assert_eq!((probe.until, next.until), (Some(at(now + 500)), Some(at(now + 1_000))));
        for route in [other, next] {
            router.answered(at(now), route.ticket, Some(says(10)));
        }
        let again = router.lost(at(now), probe.ticket, Ran::Perhaps, 0).unwrap();
        router.answered(at(now), again.ticket, Some(says(10)));
    }
    assert_eq!(rests, [75, 150, 300, 600]);
    let Some(Standing::Rests { until }) = router.standing(lost) else { panic!() };
    let probe = router.ask(until, Ask { deadline: None, ..pure(0) }, 0).unwrap();
    assert_eq!(probe.member, lost);
    router.answered(until, probe.ticket, Some(says(10)));
    assert_eq!(router.standing(lost), Some(Standing::Open));
    assert!(router.holds_nothing());
    let lines: Vec<String> = router.take_events().iter().map(|(_, event)| event.to_string()).collect();
    assert!(lines.contains(&"member 2 lost: passed over for 75.0ms".to_owned()), "{lines:#?}");
    assert!(lines.contains(&"member 2 is back".to_owned()));
}

#[test]
fn a_member_that_is_heard_of_is_late_and_not_lost() {
    let mut router = router(0, &[10, 10]);
    let only = |member| Ask { only: Some(Member(member)), ..pure(1000) };
    let [first, second, silent] = [1, 1, 2].map(|member| router.ask(at(1), only(member), 0).unwrap());
    router.answered(at(2), second.ticket, Some(says(10)));
    assert!(router.late(at(500), first.ticket, 0).is_err() && router.late(at(500), silent.ticket, 0).is_err());
    assert_eq!(router.standing(Member(1)), Some(Standing::Open));
    assert_eq!(router.standing(Member(2)), Some(Standing::Rests { until: at(575) }));
}

#[test]
fn one_loss_counts_once_however_many_tell_it() {
    let mut router = router(0, &[10]);
    let sent: Vec<Ticket> = (0..8).map(|number| router.ask(at(0), pure(9000), number).unwrap().ticket).collect();
    for ticket in &sent {
        assert!(router.lost(at(1), *ticket, Ran::Perhaps, 0).is_err());
    }
    assert_eq!(router.standing(Member(1)), Some(Standing::Rests { until: at(76) }));
    let refused = router.ask(at(10), pure(9000), 0).unwrap_err();
    assert_eq!(refused, Refused { why: Refusal::Away { resting: 1 }, retry_after: ms(100) });
}

#[test]
fn after_a_cut_all_are_tried_as_soon_as_one_is_back() {
    let mut router = router(0, &[10; 10]);
    for member in 1..=10 {
        let route = router.ask(at(0), Ask { only: Some(Member(member)), ..pure(9000) }, member << 20).unwrap();
        let _ = router.lost(at(1), route.ticket, Ran::Perhaps, member << 20);
    }
    assert_eq!(why(router.ask(at(2), pure(9000), 0)), Refusal::Away { resting: 10 });
    let first = router.ask(at(80), pure(9000), 0).unwrap();
    router.answered(at(81), first.ticket, Some(says(10)));
    let mut asked: Vec<Member> = (0..9).map(|_| router.ask(at(81), pure(9000), 0).unwrap().member).collect();
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked.len(), 9, "each of them has one");
}

#[test]
fn members_that_drain_are_passed_over() {
    let mut router = router(0, &[10, 90]);
    router.heard(at(0), Member(1), Word { drains: true, ..says(0) });
    assert_eq!(router.ask(at(0), pure(1000), 0).unwrap().member, Member(2));
    // Who has something there may ask it all the same, when it has rested.
    assert!(router.ask(at(0), Ask { only: Some(Member(1)), ..pure(1000) }, 0).is_err());
    assert_eq!(router.ask(at(80), Ask { only: Some(Member(1)), ..pure(1000) }, 0).unwrap().member, Member(1));
    // It says that it does not any more.
    router.heard(at(90), Member(1), says(10));
    assert_eq!(router.standing(Member(1)), Some(Standing::Open));
}

#[test]
fn when_all_are_too_full_it_says_when_to_ask_again() {
    let mut router = router(0, &[500, 400, 450]);
    let refused = router.ask(at(0), pure(300), 0).unwrap_err();
    assert_eq!(refused.why, Refusal::Busy { looked: 3, expected_wait: ms(400) });
    assert_eq!(refused.retry_after, ms(100));
    assert_eq!(router.ask(at(0), pure(0), 0).unwrap_err().why, Refusal::TooLate);
    // Then there is one, and only that one.
    assert_eq!(router.ask(at(100), pure(400), 0).unwrap().member, Member(2));
    assert_eq!(router.ask(at(100), pure(400), 0).unwrap_err().retry_after, ms(25));
    // What was said long ago refuses nobody.
    assert!(router.ask(at(1000), pure(1001), 0).is_ok());
    // Without a deadline there is room or there is none.
    let full = |wait| Word { room: [1, 0, 0], ..says(wait) };
    (1..=3).for_each(|member| router.heard(at(2000), Member(member), full(50)));
    assert!(matches!(why(router.ask(at(2000), Ask::default(), 0)), Refusal::Busy { .. }));
    assert!(router.ask(at(2000), Ask { lane: Lane::Interactive, ..Ask::default() }, 0).is_ok());
    assert!(router.ask(at(2010), Ask::default(), 0).is_ok());
}

#[test]
fn bound_requests_go_to_one_member_or_nowhere() {
    let mut router = router(0, &[500, 10]);
    let bound = Ask { only: Some(Member(1)), ..pure(5000) };
    let route = router.ask(at(0), bound, 0).unwrap();
    assert_eq!(route.member, Member(1));
    let refused = router.refused(at(1), route.ticket, Some(says(6000)), 0).unwrap_err();
    assert_eq!((refused.why, refused.retry_after), (Refusal::Tried { tries: 1 }, ms(1001)));
    router.leave(at(2), Member(1));
    assert_eq!(why(router.ask(at(2), bound, 0)), Refusal::NotThere { member: Member(1) });
}

#[test]
fn whoever_left_is_not_asked_and_may_answer() {
    let mut router = router(0, &[10, 10]);
    let sent = [0u64, 1].map(|number| router.ask(at(0), pure(1000), number).unwrap());
    assert_ne!(sent[0].member, sent[1].member);
    router.leave(at(1), Member(1));
    // The same name, and another that has it: what is told of the first is not for the second.
    router.join(at(2), Member(1));
    for route in sent.iter().filter(|route| route.member == Member(1)) {
        let again = router.lost(at(3), route.ticket, Ran::Perhaps, 0).unwrap();
        assert_eq!(again.member, Member(2));
        assert_eq!(router.standing(Member(1)), Some(Standing::Open));
        router.answered(at(4), again.ticket, None);
    }
    (1..=2).for_each(|member| router.leave(at(5), Member(member)));
    assert_eq!(why(router.ask(at(5), pure(1000), 0)), Refusal::NoMembers);
    for route in sent.iter().filter(|route| route.member == Member(2)) {
        router.answered(at(6), route.ticket, Some(says(10)));
    }
    assert!(router.holds_nothing() && router.members().count() == 0);
}

/// All requests are lost. What is sent stays a little more than what is asked.
#[test]
fn a_storm_of_failures_does_not_multiply_load() {
    let limits = Limits { rest: Duration::ZERO, ..Limits::default() };
    let mut router = Router::new(limits);
    (0..50).for_each(|member| router.join(at(0), Member(member)));
    let mut sent = 0;
    for number in 0..10_000u64 {
        let now = at(number / 10);
        let mut route = router.ask(now, Ask { pure: true, ..Ask::default() }, number.wrapping_mul(0x9E37_79B9));
        while let Ok(to) = route {
            sent += 1;
            route = router.lost(now, to.ticket, Ran::Perhaps, sent);
        }
    }
    assert!((10_900..11_020).contains(&sent), "{sent} sent for 10,000");
}
