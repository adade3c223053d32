//! Terms of the VM, to and from what recipes are given and answer.

use dala_image::Picture;
use dala_recipes::text::TextLine;
use dala_recipes::{Face, FileType, Heard, RecipeError, Span, WINDOW_SECONDS};
use rustler::types::atom::Atom;
use rustler::{Encoder, Env, Term};

use crate::answers;
use crate::host::host_data;
use crate::models::NotRun;
use crate::recipes::{Given, NotDone};
use crate::terms::{self, Bad, atoms, map};

/// `{:path, path}`, `{:file, binary}` or `{:pixels, {height, width, channels}, floats, binary}`.
pub(crate) fn given(term: Term) -> Result<Given, Bad> {
    if let Ok((kind, value)) = term.decode::<(Atom, Term)>() {
        if kind == atoms::path() {
            return value.decode::<String>().map(|path| Given::Path(path.into())).map_err(|_| Bad("path"));
        }
        return host_data(value).map(Given::File).ok_or(Bad("binary"));
    }
    let (_, shape, floats, pixels) = term.decode::<(Atom, _, _, Term)>().map_err(|_| Bad("picture"))?;
    Ok(Given::Pixels(shape, floats, host_data(pixels).ok_or(Bad("binary"))?))
}

/// `{:ok, answer}` or `{:error, error}`.
pub(crate) fn answer<'a, T>(
    env: Env<'a>,
    result: Result<T, NotDone>,
    encode: impl FnOnce(Env<'a>, T) -> Term<'a>,
) -> Term<'a> {
    let (code, message) = match result {
        Ok(value) => return (atoms::ok(), encode(env, value)).encode(env),
        Err(NotDone::Recipe(RecipeError::Model(error))) => return terms::not_run(env, NotRun::Refused(error)),
        Err(NotDone::Recipe(RecipeError::Device(error))) => return terms::result(env, &Err(error)),
        Err(NotDone::Recipe(error)) => (error.code(), error.to_string()),
        Err(NotDone::Picture(error)) => (error.code(), error.to_string()),
        Err(NotDone::Unreadable(message)) => ("io", message),
    };
    (atoms::error(), terms::error_struct(env, code, &message, &[])).encode(env)
}

pub(crate) fn faces(env: Env<'_>, faces: Vec<Face>) -> Term<'_> {
    let face = |face: &Face| {
        map(
            env,
            &[
                (atoms::score(), face.score.encode(env)),
                (atoms::left(), face.left.encode(env)),
                (atoms::top(), face.top.encode(env)),
                (atoms::right(), face.right.encode(env)),
                (atoms::bottom(), face.bottom.encode(env)),
                (atoms::landmarks(), face.landmarks.to_vec().encode(env)),
            ],
        )
    };
    faces.iter().map(face).collect::<Vec<_>>().encode(env)
}

pub(crate) fn lines(env: Env<'_>, lines: Vec<TextLine>) -> Term<'_> {
    let line = |line: &TextLine| {
        map(
            env,
            &[
                (atoms::text(), line.text.encode(env)),
                (atoms::score(), line.score.encode(env)),
                (atoms::corners(), line.corners.to_vec().encode(env)),
            ],
        )
    };
    lines.iter().map(line).collect::<Vec<_>>().encode(env)
}

pub(crate) fn heard(env: Env<'_>, heard: Heard) -> Term<'_> {
    let span = |span: &Span| {
        map(
            env,
            &[
                (atoms::start_seconds(), span.start_seconds.encode(env)),
                (atoms::end_seconds(), span.end_seconds.encode(env)),
            ],
        )
    };
    map(
        env,
        &[
            (atoms::seconds(), heard.seconds.encode(env)),
            (atoms::spans(), heard.spans.iter().map(span).collect::<Vec<_>>().encode(env)),
            (atoms::window_seconds(), WINDOW_SECONDS.encode(env)),
            (atoms::probabilities(), heard.probabilities.encode(env)),
        ],
    )
}

pub(crate) fn file_type(env: Env<'_>, kind: FileType) -> Term<'_> {
    map(
        env,
        &[
            (atoms::label(), kind.label.encode(env)),
            (atoms::description(), kind.description.encode(env)),
            (atoms::mime_type(), kind.mime_type.encode(env)),
            (atoms::score(), kind.score.encode(env)),
        ],
    )
}

/// `{shape, binary}`.
pub(crate) fn picture(env: Env<'_>, picture: Picture) -> Term<'_> {
    let shape = vec![picture.height, picture.width, picture.channels];
    (shape, answers::binary(env, picture.samples.into_levels())).encode(env)
}
