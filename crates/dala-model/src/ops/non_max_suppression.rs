//! `NonMaxSuppression`: of boxes that overlap much, those with the best scores, for constant boxes. How many there are decides shapes,
//! so values are refused.

use dala_spec::{Data, Shape};

use super::operator::{Kind, Operator, Outcome};

pub(super) const NON_MAX_SUPPRESSION: Operator = Operator::new("NonMaxSuppression", Kind::Others, |call| {
    let (boxes, scores) = (call.dims(0)?, call.dims(1)?);
    let (&[batch, count, 4], &[own, classes, scored]) = (boxes, scores) else {
        return Err(call.shape_mismatch("boxes {batch, count, 4} and scores {batch, classes, count}", scores));
    };
    if own != batch || scored != count {
        return Err(call.shape_mismatch("scores {batch, classes, count} for the boxes", scores));
    }
    let centred = call.flag("center_point_box", false)?;
    let number = |place: usize, what: &str| Ok(call.scalar(place, what)?.map_or(0.0, |scalar| scalar.as_f64()));
    let most = call.scalar(2, "max_output_boxes_per_class")?.map_or(0, |scalar| scalar.as_i64());
    let most = usize::try_from(most).unwrap_or_default();
    let overlap = number(3, "iou_threshold")?;
    let least = call.scalar(4, "score_threshold")?.map(|scalar| scalar.as_f64());
    call.constant(0, "boxes")?;
    call.constant(1, "scores")?;
    let (Some(boxes), Some(scores)) = (call.looked_at(0)?, call.looked_at(1)?) else {
        return Ok(Outcome::same(call.input(0)?));
    };
    // Every box of a class may be compared with every other.
    call.budget.need(count.saturating_mul(most.min(count)).saturating_mul(batch * classes), call.node)?;
    let corners = |picture: usize, number: usize| {
        let at = |side: usize| boxes.get((picture * count + number) * 4 + side).map_or(0.0, |value| value.as_f64());
        match centred {
            true => [at(1) - at(3) / 2.0, at(0) - at(2) / 2.0, at(1) + at(3) / 2.0, at(0) + at(2) / 2.0],
            // Any two opposite corners.
            false => [at(0).min(at(2)), at(1).min(at(3)), at(0).max(at(2)), at(1).max(at(3))],
        }
    };
    let area = |[top, left, bottom, right]: [f64; 4]| (bottom - top) * (right - left);
    let share = |a: [f64; 4], b: [f64; 4]| {
        let [top, left] = [a[0].max(b[0]), a[1].max(b[1])];
        let [bottom, right] = [a[2].min(b[2]), a[3].min(b[3])];
        let both = (bottom - top).max(0.0) * (right - left).max(0.0);
        let all = area(a) + area(b) - both;
        if all > 0.0 { both / all } else { 0.0 }
    };
    let mut chosen: Vec<i64> = Vec::new();
    for picture in 0..batch {
        for class in 0..classes {
            let score = |number: usize| {
                scores.get((picture * classes + class) * count + number).map_or(0.0, |own| own.as_f64())
            };
            let mut order: Vec<usize> =
                (0..count).filter(|own| least.is_none_or(|least| score(*own) > least)).collect();
            order.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
            let mut kept: Vec<usize> = Vec::new();
            for number in order {
                if kept.len() >= most {
                    break;
                }
                let own = corners(picture, number);
                if kept.iter().all(|other| share(own, corners(picture, *other)) <= overlap) {
                    kept.push(number);
                }
            }
            chosen.extend(kept.into_iter().flat_map(|number| [picture as i64, class as i64, number as i64]));
        }
    }
    Ok(Outcome::constant(Shape::from(vec![chosen.len() / 3, 3]), Data::S64(chosen)))
})
.inputs(2, 5);

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{Net, constants, floats, list, scalar};

    #[test]
    fn overlapping_boxes_are_left_out() {
        let boxes = floats(&[1, 3, 4], vec![0.0, 0.0, 1.0, 1.0, 0.0, 0.1, 1.0, 1.1, 0.0, 10.0, 1.0, 11.0]);
        let scores = floats(&[1, 1, 3], vec![0.9, 0.75, 0.6]);
        let inputs = vec![boxes, scores, list(&[3]), scalar(0.5), scalar(0.0)];
        let found = constants(11, "NonMaxSuppression", inputs, vec![]);
        assert_eq!(found, (vec![2, 3], Data::S64(vec![0, 0, 0, 0, 0, 2])));
        let net =
            Net::new(11).x(&[1, 3, 4]).input("s", 1, &[1, 1, 3]).node("NonMaxSuppression", &["x", "s"], "y", vec![]);
        assert_eq!(net.output("y").code(), "not_constant");
    }
}
