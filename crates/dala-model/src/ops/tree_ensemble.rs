//! `TreeEnsembleRegressor`, `TreeEnsembleClassifier` and `TreeEnsemble` of `ai.onnx.ml`: decision trees, all walked at once, some levels in
//! each call, and the weights of the leaves that are reached put together.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use dala_spec::expr::{CompareOp, LogicOp, UnaryOp};
use dala_spec::{DType, Data, Expr, Params, Scalar, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Given, Kind, Operator, Outcome};
use crate::ModelError;
use crate::attribute::Attribute;
use crate::lower::{Lowerer, Order};
use crate::op::Compute;

pub(super) const TREE_ENSEMBLE: Operator = Operator::new("ai.onnx.ml.TreeEnsemble", Kind::Others, |call| {
    let forest = numbered(call)?;
    let aggregate = pick(call, "aggregate_function", call.int("aggregate_function", 1)?, &AGGREGATES)?;
    let transform = pick(call, "post_transform", call.int("post_transform", 0)?, &TRANSFORMS)?;
    outcome(call, forest, aggregate, transform, None)
});

pub(super) const TREE_ENSEMBLE_CLASSIFIER: Operator =
    Operator::new("ai.onnx.ml.TreeEnsembleClassifier", Kind::Others, |call| {
        // Labels that are texts are not read: the numbers of the classes stand for them.
        let labels: Vec<i64> = match (call.attribute("classlabels_int64s"), call.attribute("classlabels_strings")) {
            (Some(Attribute::Ints(labels)), _) => labels.clone(),
            (_, Some(Attribute::Texts(labels))) => (0..labels.len() as i64).collect(),
            _ => return Err(call.bad_attribute("classlabels_int64s", "there", "nothing")),
        };
        let forest = named(call, "class", labels.len())?;
        let transform = text(call, "post_transform", "NONE", &TRANSFORMS)?;
        outcome(call, forest, "SUM", transform, Some(labels))
    })
    .outputs(2);

pub(super) const TREE_ENSEMBLE_REGRESSOR: Operator =
    Operator::new("ai.onnx.ml.TreeEnsembleRegressor", Kind::Others, |call| {
        let given = call.int("n_targets", 1)?;
        let targets = usize::try_from(given).map_err(|_| call.bad_attribute("n_targets", "at least 1", given))?;
        let forest = named(call, "target", targets)?;
        let aggregate = text(call, "aggregate_function", "SUM", &AGGREGATES)?;
        let transform = text(call, "post_transform", "NONE", &TRANSFORMS)?;
        outcome(call, forest, aggregate, transform, None)
    });

const AGGREGATES: [&str; 4] = ["AVERAGE", "SUM", "MIN", "MAX"];
const TRANSFORMS: [&str; 5] = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"];
const MODES: [&str; 6] = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];
const COMPARED: [CompareOp; 6] =
    [CompareOp::Le, CompareOp::Lt, CompareOp::Ge, CompareOp::Gt, CompareOp::Eq, CompareOp::Ne];
/// What is added to the way a node compares if values that are missing go on as if it held.
const MISSING: i32 = 8;
/// The longest way from a root to a leaf.
const MAX_DEPTH: usize = 4096;
/// Levels that are walked in one call.
const LEVELS: usize = 4;

fn pick(call: &NodeCall<'_>, name: &str, number: i64, words: &[&'static str]) -> Result<&'static str, ModelError> {
    let word = usize::try_from(number).ok().and_then(|number| words.get(number).copied());
    word.ok_or_else(|| call.bad_attribute(name, format!("below {}", words.len()), number))
}

fn text(
    call: &NodeCall<'_>,
    name: &str,
    default: &'static str,
    words: &[&'static str],
) -> Result<&'static str, ModelError> {
    let given = call.text(name, default)?;
    let word = words.iter().copied().find(|word| *word == given);
    word.ok_or_else(|| call.bad_attribute(name, words.join(", "), given))
}

/// Trees as tables.
#[derive(Debug, Default)]
struct Forest {
    /// For each node: its feature, where to go on if its comparison holds and if not, and how it compares. A leaf goes on to itself.
    nodes: Vec<[i32; 4]>,
    /// What each node compares with.
    limits: Vec<f64>,
    roots: Vec<i32>,
    /// Node, target and weight.
    weights: Vec<(usize, usize, f64)>,
    targets: usize,
    depth: usize,
}

impl Forest {
    /// Checks where nodes go on, and counts the levels.
    fn checked(mut self, call: &NodeCall<'_>, features: usize) -> Result<Forest, ModelError> {
        let count = self.nodes.len();
        let bad = |why: &str| call.bad_attribute("nodes", "trees", why);
        let place = |number: i32| usize::try_from(number).ok().filter(|place| *place < count);
        let mut ways = vec![0usize; count];
        for (own, &[feature, yes, no, _]) in self.nodes.iter().enumerate() {
            if usize::try_from(feature).ok().is_none_or(|feature| feature >= features) {
                return Err(bad(&format!("feature {feature} of {features}")));
            }
            for next in [yes, no] {
                let next = place(next).ok_or_else(|| bad("a node that is not there"))?;
                if next != own {
                    ways.get_mut(next).into_iter().for_each(|ways| *ways += 1);
                }
            }
        }
        if self.roots.is_empty() || self.roots.iter().any(|root| place(*root).is_none()) || self.targets == 0 {
            return Err(bad("none"));
        }
        // From those that nothing leads to on; what is in a circle is never reached so.
        let mut level = vec![0usize; count];
        let mut open: Vec<usize> = (0..count).filter(|own| ways.get(*own) == Some(&0)).collect();
        let mut done = 0;
        while let Some(own) = open.pop() {
            done += 1;
            let Some(&[_, yes, no, _]) = self.nodes.get(own) else { continue };
            let below = level.get(own).copied().unwrap_or_default() + 1;
            for next in [yes, no].into_iter().filter_map(place).filter(|next| *next != own) {
                let (Some(level), Some(ways)) = (level.get_mut(next), ways.get_mut(next)) else { continue };
                *level = below.max(*level);
                *ways -= 1;
                if *ways == 0 {
                    open.push(next);
                }
            }
        }
        self.depth = level.iter().copied().max().unwrap_or_default();
        if done != count || self.depth > MAX_DEPTH {
            return Err(bad(if done != count { "a circle" } else { "too deep" }));
        }
        Ok(self)
    }
}

fn list<'a>(call: &NodeCall<'a>, name: &str) -> Result<&'a [i64], ModelError> {
    match call.attribute(name) {
        Some(Attribute::Ints(list)) => Ok(list),
        None => Ok(&[]),
        Some(other) => Err(call.bad_attribute(name, "a list of integers", other.kind())),
    }
}

/// Numbers that are floats or, under another name, a tensor.
fn numbers(call: &NodeCall<'_>, names: [&str; 2]) -> Result<Vec<f64>, ModelError> {
    let found = names.iter().find_map(|name| Some((name, call.attribute(name)?)));
    match found {
        Some((_, Attribute::Floats(list))) => Ok(list.iter().map(|own| f64::from(*own)).collect()),
        Some((_, Attribute::Tensor(tensor))) => Ok(tensor.data.iter().map(|own| own.as_f64()).collect()),
        None => Ok(Vec::new()),
        Some((name, other)) => Err(call.bad_attribute(name, "a list of floats", other.kind())),
    }
}

fn features(call: &NodeCall<'_>) -> Result<usize, ModelError> {
    match *call.dims(0)? {
        [features] | [_, features] if features > 0 => Ok(features),
        ref dims => Err(call.shape_mismatch("rows of features", dims)),
    }
}

fn small(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(-1)
}

/// Trees whose nodes are called by the number of their tree and their own.
fn named(call: &NodeCall<'_>, what: &str, targets: usize) -> Result<Forest, ModelError> {
    let uneven = |name: &str| call.bad_attribute(name, "as many as there are nodes", "another number");
    let (trees, own) = (list(call, "nodes_treeids")?, list(call, "nodes_nodeids")?);
    let (features_of, yes, no) =
        (list(call, "nodes_featureids")?, list(call, "nodes_truenodeids")?, list(call, "nodes_falsenodeids")?);
    let missing = list(call, "nodes_missing_value_tracks_true")?;
    let Some(Attribute::Texts(modes)) = call.attribute("nodes_modes") else { return Err(uneven("nodes_modes")) };
    let limits = numbers(call, ["nodes_values", "nodes_values_as_tensor"])?;
    call.budget.need(trees.len(), call.node)?;
    let lens = [own.len(), features_of.len(), yes.len(), no.len(), modes.len(), limits.len()];
    if lens.iter().any(|len| *len != trees.len()) {
        return Err(uneven("nodes_treeids"));
    }
    let numbers_of: HashMap<(i64, i64), usize> =
        trees.iter().copied().zip(own.iter().copied()).enumerate().map(|(place, name)| (name, place)).collect();
    let mut forest = Forest { limits, targets, ..Forest::default() };
    let mut led_to = vec![false; trees.len()];
    let entries = trees.iter().zip(features_of).zip(yes.iter().zip(no)).zip(modes).enumerate();
    for (place, (((tree, feature), (yes, no)), mode)) in entries {
        if mode == "LEAF" {
            forest.nodes.push([0, place as i32, place as i32, 0]);
            continue;
        }
        let known = MODES.iter().position(|known| known == mode);
        let known = known.ok_or_else(|| call.bad_attribute("nodes_modes", MODES.join(", "), mode))?;
        let flag = if missing.get(place).is_some_and(|flag| *flag != 0) { MISSING } else { 0 };
        let mut next = |node: &i64| {
            let found = numbers_of.get(&(*tree, *node)).copied();
            found.and_then(|found| led_to.get_mut(found)).into_iter().for_each(|led_to| *led_to = true);
            found.map_or(-1, |found| found as i32)
        };
        forest.nodes.push([small(*feature), next(yes), next(no), known as i32 | flag]);
    }
    forest.roots =
        (0..trees.len()).filter(|place| led_to.get(*place) == Some(&false)).map(|place| place as i32).collect();
    let attribute = |rest: &str| format!("{what}_{rest}");
    let (trees, nodes, ids) =
        (list(call, &attribute("treeids"))?, list(call, &attribute("nodeids"))?, list(call, &attribute("ids"))?);
    let weights = numbers(call, [&attribute("weights"), &attribute("weights_as_tensor")])?;
    for (((tree, node), id), weight) in trees.iter().zip(nodes).zip(ids).zip(weights) {
        let place = numbers_of.get(&(*tree, *node)).copied();
        let target = usize::try_from(*id).ok().filter(|target| *target < targets);
        let (Some(place), Some(target)) = (place, target) else {
            return Err(call.bad_attribute(&attribute("ids"), format!("leaves and targets below {targets}"), id));
        };
        forest.weights.push((place, target, weight));
    }
    forest.checked(call, features(call)?)
}

/// Trees whose nodes and leaves are called by their places.
fn numbered(call: &NodeCall<'_>) -> Result<Forest, ModelError> {
    let given = call.int("n_targets", 1)?;
    let targets = usize::try_from(given).map_err(|_| call.bad_attribute("n_targets", "at least 1", given))?;
    let features_of = list(call, "nodes_featureids")?;
    let (yes, no) = (list(call, "nodes_truenodeids")?, list(call, "nodes_falsenodeids")?);
    let (yes_ends, no_ends) = (list(call, "nodes_trueleafs")?, list(call, "nodes_falseleafs")?);
    let missing = list(call, "nodes_missing_value_tracks_true")?;
    let (modes, limits) = (numbers(call, ["nodes_modes", ""])?, numbers(call, ["nodes_splits", ""])?);
    let (ids, weights) = (list(call, "leaf_targetids")?, numbers(call, ["leaf_weights", ""])?);
    let count = features_of.len();
    call.budget.need(count.saturating_add(ids.len()), call.node)?;
    let lens = [yes.len(), no.len(), yes_ends.len(), no_ends.len(), modes.len(), limits.len()];
    if lens.iter().any(|len| *len != count) || ids.len() != weights.len() {
        return Err(call.bad_attribute("nodes_featureids", "as many as there are nodes", count));
    }
    let mut forest = Forest { limits, targets, ..Forest::default() };
    let next = |node: &i64, end: &i64| small(if *end != 0 { node.saturating_add(count as i64) } else { *node });
    let entries = features_of.iter().zip(yes.iter().zip(yes_ends)).zip(no.iter().zip(no_ends)).zip(modes).enumerate();
    for (place, (((feature, (yes, yes_end)), (no, no_end)), mode)) in entries {
        if mode >= MODES.len() as f64 {
            return Err(call.unsupported("not supported: nodes that look for members of a set"));
        }
        let flag = if missing.get(place).is_some_and(|flag| *flag != 0) { MISSING } else { 0 };
        forest.nodes.push([small(*feature), next(yes, yes_end), next(no, no_end), mode as i32 | flag]);
    }
    for (number, (id, weight)) in ids.iter().zip(weights).enumerate() {
        let target = usize::try_from(*id).ok().filter(|target| *target < targets);
        let target = target.ok_or_else(|| call.bad_attribute("leaf_targetids", format!("below {targets}"), id))?;
        let place = (count + number) as i32;
        forest.nodes.push([0, place, place, 0]);
        forest.limits.push(0.0);
        forest.weights.push((count + number, target, weight));
    }
    forest.roots = list(call, "tree_roots")?.iter().map(|root| small(*root)).collect();
    forest.checked(call, features(call)?)
}

fn outcome(
    call: &NodeCall<'_>,
    forest: Forest,
    aggregate: &'static str,
    transform: &'static str,
    labels: Option<Vec<i64>>,
) -> Result<Outcome, ModelError> {
    if matches!(transform, "SOFTMAX_ZERO" | "PROBIT") {
        return Err(call.unsupported(format!("not supported: post_transform {transform}")));
    }
    let features = features(call)?;
    let rows = call.value(0)?.ty.shape.len() / features;
    let dtype = if call.dtype(0)? == DType::F64 { DType::F64 } else { DType::F32 };
    let (count, targets) = (forest.nodes.len(), forest.targets);
    // Of two classes, weights may be for one alone: what it lacks is the other's where it is called the first.
    let classes: HashSet<usize> = forest.weights.iter().map(|(_, target, _)| *target).collect();
    let single = (labels.is_some() && targets == 2 && classes.len() == 1).then(|| Single {
        positive: forest.weights.iter().all(|(_, _, weight)| *weight >= 0.0),
        first: classes.contains(&0),
    });
    let columns = if single.is_some_and(|single| single.first) { 1 } else { targets };
    let ty = call.output(dtype, vec![count, columns])?;
    call.budget.need(ty.shape.len(), call.node)?;
    call.output(dtype, vec![rows, forest.roots.len(), columns])?;
    let nothing = match aggregate {
        "MIN" => f64::INFINITY,
        "MAX" => f64::NEG_INFINITY,
        _ => 0.0,
    };
    let mut weights = vec![nothing; ty.shape.len()];
    for (place, target, weight) in &forest.weights {
        let column = if columns == 1 { 0 } else { *target };
        let Some(own) = weights.get_mut(place * columns + column) else { continue };
        *own = match aggregate {
            "MIN" => own.min(*weight),
            "MAX" => own.max(*weight),
            _ => *own + *weight,
        };
    }
    let floats = |values: &[f64]| Data::collect(dtype, values.iter().map(|value| Scalar::from_f64(dtype, *value)));
    let base = numbers(call, ["base_values", "base_values_as_tensor"])?;
    let base = match base.len() {
        0 => vec![0.0; columns],
        len if len == columns => base,
        len => return Err(call.bad_attribute("base_values", columns, len)),
    };
    let nodes: Vec<i32> = forest.nodes.concat();
    let inputs = vec![
        ("x", Given::Value(call.input(0)?)),
        ("nodes", Given::Constant(Shape::from(vec![nodes.len()]), Data::S32(nodes))),
        ("limits", Given::Constant(Shape::from(vec![count]), floats(&forest.limits))),
        ("roots", Given::Constant(Shape::from(vec![forest.roots.len()]), Data::S32(forest.roots.clone()))),
        ("weights", Given::Constant(ty.shape, floats(&weights))),
        ("base", Given::Constant(Shape::from(vec![columns]), floats(&base))),
    ];
    let modes = forest.nodes.iter().map(|node| node[3]);
    let modes = modes.collect::<BTreeSet<i32>>().into_iter().collect();
    let is_classifier = labels.is_some();
    let trees = Trees { rows, features, columns, depth: forest.depth, modes, aggregate, transform, single, labels };
    // Only the newest form gives what it is given.
    let made = if call.operator == TREE_ENSEMBLE.name { dtype } else { DType::F32 };
    let scores = call.output(made, vec![rows, targets])?;
    let types = match is_classifier {
        true => vec![call.output(DType::S64, vec![rows])?, scores],
        false => vec![scores],
    };
    Ok(Outcome::Layer { compute: Arc::new(trees), inputs, types })
}

/// Weights for one of two classes alone.
#[derive(Clone, Copy, Debug)]
struct Single {
    /// Whether none of them is negative.
    positive: bool,
    /// Whether they are for the first class, which then stands for the second.
    first: bool,
}

/// Over `x`, nodes, what they compare with, roots, weights of leaves and what is added at the end.
#[derive(Debug)]
struct Trees {
    rows: usize,
    features: usize,
    columns: usize,
    depth: usize,
    /// The ways in which nodes compare, without doubles.
    modes: Vec<i32>,
    aggregate: &'static str,
    transform: &'static str,
    single: Option<Single>,
    labels: Option<Vec<i64>>,
}

impl Compute for Trees {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (dtype, trees) = (to.value(2).ty.dtype, to.value(3).ty.shape.len());
        let (mut x, nodes, limits) = (to.first(0)?, to.first(1)?, to.first(2)?);
        if to.value(0).ty.dtype != dtype {
            let ty = TensorType { dtype, shape: to.value(0).ty.shape.clone() };
            x = to.call("cast", &[x], ty, &Params::new())?;
        }
        let roots = to.first(3)?;
        let places = TensorType::new(DType::S32, [self.rows, trees]);
        let mut place =
            to.expression(&Expr::input("roots").gather(Expr::coord(1)), &[("roots", roots)], places.clone())?;
        let mut left = self.depth;
        while left > 0 {
            let levels = left.min(LEVELS);
            let named = [("x", x), ("nodes", nodes), ("limits", limits), ("place", place)];
            place = to.expression(&self.walk(levels), &named, places.clone())?;
            left -= levels;
        }
        let weights = to.first(4)?;
        let reached = Expr::input("place").gather(Expr::coord(0) * Expr::size(trees) + Expr::coord(1));
        let weight = Expr::input("weights").gather(reached * Expr::size(self.columns) + Expr::coord(2));
        let all = TensorType::new(dtype, [self.rows, trees, self.columns]);
        let all = to.expression(&weight, &[("place", place), ("weights", weights)], all)?;
        let kernel = match self.aggregate {
            "MIN" => "reduce_min",
            "MAX" => "reduce_max",
            _ => "reduce_sum",
        };
        let sums = TensorType::new(dtype, [self.rows, self.columns]);
        let sum = to.call(kernel, &[all], sums, &Params::new().with("axes", vec![1i64]))?;
        let base = to.first(5)?;
        let scores_place = to.outputs() - 1;
        let ty = to.output_at(scores_place).clone();
        let scores = to.expression(&self.finish(trees), &[("sum", sum), ("base", base)], ty.clone())?;
        let scores = match self.transform {
            "SOFTMAX" => to.call("softmax", &[scores], ty.clone(), &Params::new().with("axis", 1))?,
            _ => scores,
        };
        to.give_first(scores_place, scores);
        let Some(labels) = &self.labels else { return Ok(()) };
        let ty = TensorType::new(DType::S32, [self.rows]);
        let best = match self.single {
            // It needs more than half, or more than nothing.
            Some(Single { positive, first }) => {
                let column = Expr::size(usize::from(!first));
                let at = Expr::coord(0) * Expr::size(self.columns) + column.clone();
                let found = Expr::input("sum").gather(at) + Expr::input("base").gather(column);
                let limit = if positive { 0.5 } else { 0.0 };
                let above = found.compare(CompareOp::Gt, Expr::number(limit));
                let best = Expr::select(above, Expr::from(1), Expr::from(0)).cast(DType::S32);
                to.expression(&best, &[("sum", sum), ("base", base)], ty)?
            }
            None => to.call("argmax", &[scores], ty, &Params::new().with("axes", vec![1i64]))?,
        };
        let labels = to.constant(Data::S64(labels.clone()), &[labels.len()]);
        to.make(0, Order::First, "gather", &[labels, best], &Params::new().with("axis", 0))
    }
}

impl Trees {
    /// Some levels further, for each row and tree.
    fn walk(&self, levels: usize) -> Expr {
        let name = |level: usize| format!("node{level}");
        let mut expr = Expr::local(name(levels));
        for level in (0..levels).rev() {
            let node = Expr::local(name(level));
            let entry = |column: usize| Expr::input("nodes").gather(node.clone() * 4 + Expr::size(column));
            let value = Expr::input("x").gather(Expr::coord(0) * Expr::size(self.features) + entry(0));
            let limit = Expr::input("limits").gather(node.clone());
            let (own, against) = (|| Expr::local("value"), || Expr::local("limit"));
            let ways = self.modes.iter().map(|mode| {
                let op = COMPARED.get((mode % MISSING) as usize).copied().unwrap_or(CompareOp::Le);
                let holds = own().compare(op, against());
                let holds = match *mode >= MISSING {
                    true => holds.logic(LogicOp::Or, own().unary(UnaryOp::IsNan)),
                    false => holds,
                };
                (*mode, holds)
            });
            // One way for all in most forests.
            let holds = ways.reduce(|(_, others), (mode, holds)| {
                let is_own = entry(3).compare(CompareOp::Eq, Expr::size(mode as usize));
                (mode, Expr::select(is_own, holds, others))
            });
            let holds = holds.map_or(own().compare(CompareOp::Le, against()), |(_, holds)| holds);
            let next = Expr::select(holds, entry(1), entry(2));
            let next = Expr::with_local("value", value, Expr::with_local("limit", limit, next));
            expr = Expr::with_local(name(level + 1), next, expr);
        }
        Expr::with_local(name(0), Expr::input("place"), expr)
    }

    /// What becomes of the sums of each row.
    fn finish(&self, trees: usize) -> Expr {
        let column = |column: Expr| {
            let at = Expr::coord(0) * Expr::size(self.columns) + column.clone();
            let mut sum = Expr::input("sum").gather(at);
            match self.aggregate {
                "AVERAGE" => sum = sum * Expr::number(1.0 / trees as f64),
                // No leaf that was reached says anything of the target.
                "MIN" | "MAX" => {
                    sum = Expr::select(sum.clone().unary(UnaryOp::IsInf), Expr::number(0.0), sum);
                }
                _ => {}
            }
            sum + Expr::input("base").gather(column)
        };
        let logistic = |score: Expr| if self.transform == "LOGISTIC" { score.sigmoid() } else { score };
        let Some(Single { positive, first: true }) = self.single else { return logistic(column(Expr::coord(1))) };
        let second = logistic(column(Expr::from(0)));
        let first = match positive || self.transform == "LOGISTIC" {
            true => Expr::number(1.0) - second.clone(),
            false => -second.clone(),
        };
        Expr::select(Expr::coord(1).compare(CompareOp::Eq, 0), first, second)
    }
}

#[cfg(test)]
mod tests {
    use crate::builder::{Net, float, int, ints};
    use crate::proto::{AttributeProto, attribute_type};

    fn texts(name: &str, values: &[&'static str]) -> AttributeProto {
        let strings = values.iter().map(|value| bytes::Bytes::from_static(value.as_bytes())).collect();
        AttributeProto { name: name.to_owned(), strings, r#type: attribute_type::STRINGS, ..Default::default() }
    }

    fn floats(name: &str, values: &[f32]) -> AttributeProto {
        let ty = attribute_type::FLOATS;
        AttributeProto { name: name.to_owned(), floats: values.to_vec(), r#type: ty, ..Default::default() }
    }

    /// One tree: a node with two leaves.
    fn net(mode: &'static str, yes: i64, features: i64) -> Net {
        let attributes = vec![
            ints("nodes_treeids", &[0, 0, 0]),
            ints("nodes_nodeids", &[0, 1, 2]),
            ints("nodes_featureids", &[1, 0, 0]),
            ints("nodes_truenodeids", &[yes, 0, 0]),
            ints("nodes_falsenodeids", &[2, 0, 0]),
            texts("nodes_modes", &[mode, "LEAF", "LEAF"]),
            floats("nodes_values", &[0.5, 0.0, 0.0]),
            ints("target_treeids", &[0, 0]),
            ints("target_nodeids", &[1, 2]),
            ints("target_ids", &[0, 0]),
            floats("target_weights", &[10.0, 20.0]),
            int("n_targets", 1),
        ];
        let mut net =
            Net::new(13).x(&[-1, features]).node("TreeEnsembleRegressor", &["x"], "y", attributes).output("y");
        net.graph().node[0].domain = "ai.onnx.ml".to_owned();
        net
    }

    #[test]
    fn trees_are_checked() {
        let right = net("BRANCH_LEQ", 1, 3);
        assert_eq!(right.dims().unwrap(), [2, 1]);
        crate::lower::lower(&right.resolve(2).unwrap()).unwrap();
        assert_eq!(net("BRANCH_MAYBE", 1, 3).code(), "bad_attribute");
        assert_eq!(net("BRANCH_LEQ", 7, 3).code(), "bad_attribute");
        assert_eq!(net("BRANCH_LEQ", 1, 1).code(), "bad_attribute");
        let mut other = net("BRANCH_LEQ", 1, 3);
        other.graph().node[0].domain = "com.microsoft".to_owned();
        assert_eq!(other.code(), "unsupported_operator");
        let mut wrong = net("BRANCH_LEQ", 1, 3);
        wrong.graph().node[0].attribute.push(float("n_targets", 1.0));
        assert_eq!(wrong.code(), "read", "the first of two counts");
    }
}
