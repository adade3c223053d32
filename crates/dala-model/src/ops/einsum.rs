//! `Einsum`: products of values summed over axes, as an equation names them: `ij,jk->ik`. Two values at a time come down to a product
//! of matrices, of those axes that stay, those that add and those that both have.

use dala_spec::{Params, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use super::reduce::{How, reduced};
use crate::ModelError;
use crate::limits::MAX_NAMES;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const EINSUM: Operator = Operator::new("Einsum", Kind::Matrices, infer).inputs(1, MAX_NAMES);

/// What an axis is called: a letter of the equation, or a digit for those that an ellipsis stands for.
type Name = char;

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let text = call.text("equation", "")?;
    let equation: String = text.chars().filter(|own| !own.is_whitespace()).collect();
    let bad = |expected: &str| call.bad_attribute("equation", expected, text);
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (&equation[..], None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != call.inputs.len() {
        return Err(bad(&format!("{} terms", call.inputs.len())));
    }
    let mut sizes: Vec<(Name, usize)> = Vec::new();
    let mut operands = Vec::new();
    for (place, term) in terms.iter().enumerate() {
        call.same_dtype(place)?;
        let dims = call.dims(place)?;
        let names = names(term, dims.len()).ok_or_else(|| bad(&format!("a letter for each axis of input {place}")))?;
        for (&name, &size) in names.iter().zip(dims) {
            match sizes.iter_mut().find(|(own, _)| *own == name) {
                None => sizes.push((name, size)),
                Some((_, own)) if *own == size || size == 1 => {}
                Some((_, own)) if *own == 1 => *own = size,
                Some(_) => return Err(call.shape_mismatch(format!("one size for all axes `{name}`"), dims)),
            }
        }
        operands.push(names);
    }
    let dots: usize = sizes.iter().filter(|(name, _)| name.is_ascii_digit()).count();
    let output = match right {
        Some(right) => {
            let letters = right.replace("...", "").chars().count();
            let dots = if right.contains("...") { dots } else { 0 };
            names(right, letters + dots).ok_or_else(|| bad("letters after the arrow"))?
        }
        // Without an arrow: the axes of an ellipsis, then all letters that are there once, in order.
        None => {
            let once = |name: &Name| left.chars().filter(|own| own == name).count() == 1;
            let mut names: Vec<Name> =
                sizes.iter().map(|(name, _)| *name).filter(|name| name.is_ascii_digit() || once(name)).collect();
            names.sort_by_key(|name| (!name.is_ascii_digit(), digit_last(*name)));
            names
        }
    };
    let size = |name: &Name| sizes.iter().find(|(own, _)| own == name).map(|(_, size)| *size);
    let twice = output.iter().enumerate().any(|(place, name)| output.iter().skip(place + 1).any(|own| own == name));
    let dims: Option<Vec<usize>> = output.iter().map(size).collect();
    let dims =
        dims.filter(|_| !twice).ok_or_else(|| bad("each letter once after the arrow, and one from before it"))?;
    call.float()?;
    let ty = call.output(call.dtype(0)?, dims)?;
    let inputs = (0..call.inputs.len()).map(|place| call.input(place)).collect::<Result<Vec<_>, _>>()?;
    Ok(Outcome::layer(Einsum { operands, output, sizes }, inputs, ty))
}

/// The axes of an ellipsis count from the last one, so that fewer are the last of more.
fn digit_last(name: Name) -> (u32, Name) {
    (name.to_digit(10).map_or(0, |digit| 9 - digit), name)
}

/// The names of the axes of a term; `None` if they are not as many, or no letters.
fn names(term: &str, rank: usize) -> Option<Vec<Name>> {
    let (before, after, dots) = match term.split_once("...") {
        Some((before, after)) => (before, after, true),
        None => (term, "", false),
    };
    let letters = before.len() + after.len();
    let hidden = rank.checked_sub(letters)?;
    let letters_only = before.chars().chain(after.chars()).all(|own| own.is_ascii_alphabetic());
    if !letters_only || (hidden > 0 && !dots) {
        return None;
    }
    let hidden = (0..hidden as u32).rev().filter_map(|digit| char::from_digit(digit, 10));
    Some(before.chars().chain(hidden).chain(after.chars()).collect())
}

#[derive(Debug)]
struct Einsum {
    /// What the axes of each input are called.
    operands: Vec<Vec<Name>>,
    output: Vec<Name>,
    sizes: Vec<(Name, usize)>,
}

/// A cell and what its axes are called, each differently.
struct Named {
    cell: usize,
    names: Vec<Name>,
}

impl Compute for Einsum {
    fn cost(&self, _: &[&Shape], makes: &[TensorType]) -> Option<usize> {
        // Every element of the result is a sum over what the result does not have.
        let all = self.sizes.iter().fold(1usize, |all, (_, size)| all.saturating_mul(*size));
        Some(all.max(makes.first()?.shape.len()))
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let mut made: Option<Named> = None;
        for place in 0..to.inputs() {
            let later = self.operands.iter().skip(place + 1).flatten();
            let needed: Vec<Name> = self.output.iter().chain(later).copied().collect();
            let cell = to.first(place)?;
            let next = self.distinct(to, cell, &self.operands[place])?;
            let own = match made {
                None => next,
                Some(before) => self.product(to, before, next, &needed)?,
            };
            made = Some(self.kept(to, own, |name| needed.contains(&name))?);
        }
        let Some(Named { cell, names }) = made else { return Ok(()) };
        let (cell, names) = self.grown(to, cell, names)?;
        let turn: Vec<usize> = self.output.iter().filter_map(|name| names.iter().position(|own| own == name)).collect();
        let turned = to.turned(cell, &turn)?;
        let made = to.calls.view(turned, to.output().clone());
        to.give_first(0, made);
        Ok(())
    }
}

impl Einsum {
    fn size(&self, name: Name) -> usize {
        self.sizes.iter().find(|(own, _)| *own == name).map_or(1, |(_, size)| *size)
    }

    fn ty(&self, to: &Lowerer<'_>, names: &[Name]) -> TensorType {
        TensorType::new(to.output().dtype, names.iter().map(|name| self.size(*name)).collect::<Vec<usize>>())
    }

    /// An operand with each name once: the diagonal of axes of one name, and without axes of size one that are larger elsewhere.
    fn distinct(&self, to: &mut Lowerer<'_>, mut cell: usize, names: &[Name]) -> Result<Named, SpecError> {
        let ty = to.calls.ty(cell).clone();
        let kept: Vec<(Name, usize)> = names
            .iter()
            .copied()
            .zip(ty.shape.dims().iter().copied())
            .filter(|(name, size)| *size == self.size(*name))
            .collect();
        let dims: Vec<usize> = kept.iter().map(|(_, size)| *size).collect();
        cell = to.calls.view(cell, TensorType::new(ty.dtype, dims.clone()));
        let mut unique: Vec<Name> = Vec::new();
        kept.iter().for_each(|(name, _)| {
            if !unique.contains(name) {
                unique.push(*name)
            }
        });
        if unique.len() < kept.len() {
            // Equal coordinates along axes of one name: one step takes the steps of all of them.
            let mut params = Params::new();
            let mut terms = Vec::new();
            for (axis, name) in unique.iter().enumerate() {
                let own = kept.iter().enumerate().filter(|(_, (own, _))| own == name);
                let step: usize = own.map(|(place, _)| dims[place + 1..].iter().product::<usize>()).sum();
                terms.push(format!("coord({axis}) * step{axis}"));
                params = params.with(format!("step{axis}"), step as i64);
            }
            let text = format!("gather(x, {})", terms.join(" + "));
            cell = to.map(&text, &[("x", cell)], self.ty(to, &unique), &params)?;
        }
        Ok(Named { cell, names: unique })
    }

    /// The sum over all axes but those.
    fn kept(&self, to: &mut Lowerer<'_>, own: Named, keep: impl Fn(Name) -> bool) -> Result<Named, SpecError> {
        let axes: Vec<usize> = (0..own.names.len()).filter(|&axis| !keep(own.names[axis])).collect();
        if axes.is_empty() {
            return Ok(own);
        }
        let names: Vec<Name> = own.names.iter().copied().filter(|name| keep(*name)).collect();
        let cell = reduced(to, own.cell, How::Sum, &axes, self.ty(to, &names))?;
        Ok(Named { cell, names })
    }

    /// The product of two, summed over what both have and nobody needs.
    fn product(&self, to: &mut Lowerer<'_>, a: Named, b: Named, needed: &[Name]) -> Result<Named, SpecError> {
        let is_needed = |name: &Name| needed.contains(name);
        let a = {
            let b = b.names.clone();
            self.kept(to, a, |name| is_needed(&name) || b.contains(&name))?
        };
        let b = {
            let a = a.names.clone();
            self.kept(to, b, |name| is_needed(&name) || a.contains(&name))?
        };
        let both = |needed: bool| -> Vec<Name> {
            a.names.iter().copied().filter(|name| b.names.contains(name) && is_needed(name) == needed).collect()
        };
        let (stack, inner) = (both(true), both(false));
        let only = |own: &Named, other: &Named| -> Vec<Name> {
            own.names.iter().copied().filter(|name| !other.names.contains(name)).collect()
        };
        let (rows, columns) = (only(&a, &b), only(&b, &a));
        let len = |names: &[Name]| names.iter().map(|name| self.size(*name)).product::<usize>();
        let dtype = to.output().dtype;
        let mut matrix = |own: &Named, parts: [&[Name]; 3]| -> Result<usize, SpecError> {
            let order = parts.concat();
            let turn: Vec<usize> =
                order.iter().filter_map(|name| own.names.iter().position(|other| other == name)).collect();
            let turned = to.turned(own.cell, &turn)?;
            Ok(to.calls.view(turned, TensorType::new(dtype, parts.map(len))))
        };
        let left = matrix(&a, [&stack, &rows, &inner])?;
        let right = matrix(&b, [&stack, &inner, &columns])?;
        let ty = TensorType::new(dtype, [len(&stack), len(&rows), len(&columns)]);
        let names = [stack, rows, columns].concat();
        let made = match inner.is_empty() {
            true => to.call("elementwise_mul", &[left, right], ty, &Params::new())?,
            false => to.call("matmul", &[left, right], ty, &Params::new())?,
        };
        let cell = to.calls.view(made, self.ty(to, &names));
        Ok(Named { cell, names })
    }

    /// With those axes of the output, if any, that no operand has in full: they have size one.
    fn grown(&self, to: &mut Lowerer<'_>, cell: usize, mut names: Vec<Name>) -> Result<(usize, Vec<Name>), SpecError> {
        names.extend(self.output.iter().copied().filter(|name| !names.contains(name)).collect::<Vec<_>>());
        Ok((to.calls.view(cell, self.ty(to, &names)), names))
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{Net, constants, floats, text};

    fn of(equation: &'static str, inputs: &[&[i64]]) -> (Vec<usize>, Vec<f32>) {
        let value = |dims: &&[i64]| floats(dims, (1..=dims.iter().product::<i64>()).map(|own| own as f32).collect());
        let (dims, data) =
            constants(12, "Einsum", inputs.iter().map(value).collect(), vec![text("equation", equation)]);
        let Data::F32(found) = data else { panic!("no floats") };
        (dims, found)
    }

    #[test]
    fn equations_say_what_adds_up() {
        assert_eq!(of("ij->ji", &[&[2, 2]]), (vec![2, 2], vec![1.0, 3.0, 2.0, 4.0]));
        assert_eq!(of("ij->i", &[&[2, 3]]), (vec![2], vec![6.0, 15.0]));
        assert_eq!(of("ij->", &[&[2, 3]]), (vec![], vec![21.0]));
        assert_eq!(of("ii->i", &[&[3, 3]]), (vec![3], vec![1.0, 5.0, 9.0]));
        assert_eq!(of("ii", &[&[3, 3]]), (vec![], vec![15.0]));
        assert_eq!(of("i,i", &[&[3], &[3]]), (vec![], vec![14.0]));
        assert_eq!(of("i,j->ij", &[&[2], &[2]]), (vec![2, 2], vec![1.0, 2.0, 2.0, 4.0]));
        assert_eq!(of("ij,jk", &[&[2, 2], &[2, 2]]), (vec![2, 2], vec![7.0, 10.0, 15.0, 22.0]));
        assert_eq!(of("bij,bjk->bki", &[&[1, 2, 2], &[1, 2, 2]]).1, [7.0, 15.0, 10.0, 22.0]);
        assert_eq!(of("...ij,...jk->...ik", &[&[1, 2, 2], &[2, 2]]), (vec![1, 2, 2], vec![7.0, 10.0, 15.0, 22.0]));
        assert_eq!(of("... i->...", &[&[2, 2]]), (vec![2], vec![3.0, 7.0]));
        assert_eq!(of("ij,jk,kl->il", &[&[1, 2], &[2, 2], &[2, 1]]), (vec![1, 1], vec![27.0]));
        assert_eq!(of("ij,kj->k", &[&[2, 2], &[1, 2]]), (vec![1], vec![16.0]));
    }

    #[test]
    fn what_is_no_equation_is_refused() {
        let code = |equation| {
            let net = Net::new(12).x(&[2, 3]);
            net.node("Einsum", &["x", "x"], "y", vec![text("equation", equation)]).output("y").code()
        };
        assert_eq!(code("ij,ij->i"), "read");
        for bad in ["ij->i", "ij,i->i", "ij,ij->k", "ij,ij->ii", "i1,ij->i", ""] {
            assert_eq!(code(bad), "bad_attribute", "{bad}");
        }
        assert_eq!(code("ij,ji->i"), "shape_mismatch");
    }
}
