//! What it is worth: whole fleets, beside plain ways to choose. The example `fleet` prints the tables.

use std::time::Duration;

use crate::simulation::callers::How;
use crate::simulation::figures::Figures;
use crate::simulation::node::{CORES, Table};
use crate::simulation::scenarios::{MENDED, cut, hot, killed, load, million, restarts, slow};
use crate::simulation::{MILLI, Scenario};

/// Runs a scenario. In each of them everybody is told something, and nothing runs twice that must not.
fn run(scenario: &Scenario) -> Figures {
    let figures = scenario.run();
    println!(
        "{:3} nodes, {:11} asked {:6} answered {:6} in time/s {:6.0} refused {:.2} % repeated {:.2} % again {:6} p50 {:5.1} p99 {:5.1} p99.9 {:6.1}",
        scenario.nodes,
        scenario.how.name(),
        figures.asked,
        figures.answered,
        figures.goodput(),
        figures.percent(figures.refused),
        figures.percent(figures.repeated),
        figures.returned,
        figures.percentile(500),
        figures.percentile(990),
        figures.percentile(999),
    );
    assert_eq!((figures.lost, figures.doubled), (0, 0));
    assert_eq!(figures.asked, figures.answered + figures.refused);
    if scenario.how == How::Ours {
        // A tenth of what is asked, and what was there before it counted.
        let most = (figures.asked + figures.returned) / 10 + 100 * scenario.callers as u64;
        assert!(figures.repeated <= most, "{}", figures.repeated);
    }
    figures
}

#[test]
fn under_load_it_is_as_good_as_turns_and_far_better_than_chance() {
    for nodes in [1, 2, 8, 40] {
        let seconds = 400 / nodes as u64;
        for of_all in [0.5, 0.8, 0.92] {
            let [random, turns, ours] = How::ALL.map(|how| run(&load(nodes, how, of_all, seconds)));
            assert!(ours.refused <= turns.refused + ours.asked / 1000 && ours.in_time * 500 >= ours.answered * 499);
            assert!(ours.percentile(990) < 1.2 * turns.percentile(990) + 2.0);
            assert!(nodes < 8 || ours.percentile(990) < 0.8 * random.percentile(990));
        }
        // What cannot be answered is refused, and the rest is in time: nothing is gained by repeating it.
        let [random, _, ours] = How::ALL.map(|how| run(&load(nodes, how, 1.2, seconds)));
        let most = ours.asked as f64 / 1.2;
        assert!(ours.in_time as f64 > 0.96 * most, "{} of {most:.0}", ours.in_time);
        assert!(nodes < 8 || ours.repeated * 4 < random.repeated);
    }
}

#[test]
fn nodes_that_are_gone_cost_nobody_an_answer() {
    let ours = run(&killed(40, How::Ours, false, 100));
    assert!(ours.refused * 10_000 <= ours.asked, "{} refused", ours.refused);
    // Those that may have run are not repeated if they must not be, and all others are.
    let half = run(&killed(200, How::Ours, false, 50));
    assert!(half.in_doubt > 0 && half.refused <= half.in_doubt + 3, "{} of {}", half.in_doubt, half.refused);
    let [random, _, silent] = How::ALL.map(|how| run(&killed(40, how, true, 100)));
    assert!(silent.refused * 3 < random.refused);
}

#[test]
fn a_rolling_restart_refuses_nobody() {
    for told in [true, false] {
        let ours = run(&restarts(8, How::Ours, told));
        assert_eq!(ours.refused, 0);
        assert!(ours.percentile(999) < 150.0);
    }
}

#[test]
fn a_slow_node_is_passed_over() {
    for nodes in [8, 40] {
        let [_, turns, ours] = How::ALL.map(|how| run(&slow(nodes, how, 0.5)));
        assert!(ours.percentile(999) < 100.0 && turns.percentile(999) > 200.0);
        assert!(ours.refused == 0 && ours.of_first() < 0.25 && turns.of_first() > 0.25, "{}", ours.of_first());
    }
}

#[test]
fn a_hot_model_leaves_room_for_the_other() {
    let [random, _, ours] = How::ALL.map(|how| run(&hot(8, how, 0.8)));
    assert!(ours.refused == 0 && ours.percentile(990) < random.percentile(990));
}

#[test]
fn after_a_cut_the_herd_is_served() {
    let scenario = cut(8, How::Ours);
    let figures = run(&scenario);
    let usual = 0.95 * scenario.load * scenario.table.saturation() * 8.0;
    assert!(figures.seconds_until(MENDED, usual) < 1.0);
    assert!(figures.refused == 0 && figures.returned < 30 * figures.asked, "{}", figures.returned);
}

/// Milliseconds that answers took on average.
fn mean(figures: &Figures) -> f64 {
    figures.took.iter().map(|took| f64::from(*took)).sum::<f64>() / figures.took.len() as f64 / 1e3
}

/// Runs of one item that all take as long, and arrivals at random: theory knows the mean (Pollaczek and Khinchine).
#[test]
fn one_node_without_batches_is_as_queueing_theory_has_it() {
    for of_all in [0.5, 0.8] {
        let table =
            Table { runs: [(1, 10.0)].as_slice().into(), spread: 0.0, useful: Duration::from_secs(60), ..CORES };
        let figures = run(&Scenario { table, ..load(1, How::Ours, of_all, 2_000) });
        let expected = 10.0 + 10.0 * of_all / (2.0 * (1.0 - of_all)) + 2.0 * 0.5;
        assert!((mean(&figures) / expected - 1.0).abs() < 0.05, "{:.2} ms, {expected:.2} expected", mean(&figures));
    }
}

/// Callers that ask again at once keep all devices busy, and by Little's law as many are under way as there are callers.
#[test]
fn closed_loops_use_all_there_is() {
    for nodes in [1, 4] {
        let scenario = Scenario { closed: Some(16 * nodes), ..load(nodes, How::Ours, 1.0, 50) };
        let figures = run(&scenario);
        assert!(figures.goodput() > 0.97 * scenario.table.saturation() * nodes as f64, "{}", figures.goodput());
        let under_way = figures.goodput() * mean(&figures) / 1e3;
        assert!((under_way / (16.0 * nodes as f64) - 1.0).abs() < 0.02, "{under_way:.2} are under way");
    }
}

/// A million requests in a second for a thousand nodes, for a little while.
#[test]
fn a_thousand_nodes() {
    let figures = run(&million(How::Ours, 20 * MILLI, 120 * MILLI));
    assert!(figures.in_time == figures.asked && figures.asked > 90_000);
}
