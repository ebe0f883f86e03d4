//! Which extractions say nearly the same, so that a person can decide on them together (DESIGN section 8, "review help").
//!
//! A text is the set of its terms: words in lower case, and pairs of neighbouring characters where words are not parted
//! by spaces (Chinese, Japanese, Korean, Thai), both after Unicode's compatibility form (NFKC). Two texts are similar
//! when they share half of their terms: `2·shared / (left + right) ≥ 1/2` (the coefficient of Dice, 1945). It only sorts
//! what a person looks at; nothing is skipped or merged by it.

use std::collections::{BTreeSet, HashMap};

use unicode_normalization::UnicodeNormalization as _;
use unicode_segmentation::UnicodeSegmentation as _;

use crate::limits::SIMILARITY_TERMS_MAX;

/// The terms of a text, at most [`SIMILARITY_TERMS_MAX`] of them from its beginning.
#[must_use]
pub fn terms(text: &str) -> BTreeSet<String> {
    let mut terms = BTreeSet::new();
    let mut run: Vec<char> = Vec::new();
    // Longer texts are cut before they are taken apart: a term has at least one character.
    let start: String = text.chars().take(SIMILARITY_TERMS_MAX * 20).collect();
    let folded: String = start.nfkc().flat_map(char::to_lowercase).collect();
    for word in folded.split_word_bounds() {
        if terms.len() >= SIMILARITY_TERMS_MAX {
            break;
        }
        if word.chars().all(is_unspaced) && !word.is_empty() {
            run.extend(word.chars());
            continue;
        }
        take_pairs(&mut run, &mut terms);
        if word.chars().any(char::is_alphanumeric) {
            terms.insert(word.to_owned());
        }
    }
    take_pairs(&mut run, &mut terms);
    terms
}

fn take_pairs(run: &mut Vec<char>, terms: &mut BTreeSet<String>) {
    match run.as_slice() {
        [] => {}
        [single] => drop(terms.insert(single.to_string())),
        run => terms.extend(run.windows(2).map(|pair| pair.iter().collect())),
    }
    run.clear();
}

/// Whether a character belongs to a script that writes words without spaces between them.
fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{0e00}'..='\u{0e7f}' // Thai
        | '\u{3005}'..='\u{3007}'
        | '\u{3040}'..='\u{30ff}' // kana
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' // Chinese characters
        | '\u{ac00}'..='\u{d7af}' // Hangul
        | '\u{20000}'..='\u{3ffff}')
}

/// Whether two sets of terms are similar.
#[must_use]
pub fn is_similar(shared: usize, left: usize, right: usize) -> bool {
    shared > 0 && 4 * shared >= left + right
}

/// Groups texts: each joins the first earlier group whose first text it is similar to, or begins one. Gives for each text
/// the index of its group's first text, so that the same texts in the same order are grouped the same way always, and no
/// chain of neighbours joins texts that have nothing in common.
#[must_use]
pub fn group<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<usize> {
    let mut firsts: Vec<usize> = Vec::new();
    // The number of terms of each group's first text, and the groups whose first text has a term.
    let mut leaders: Vec<(usize, usize)> = Vec::new();
    let mut by_term: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, text) in texts.into_iter().enumerate() {
        let terms = terms(text);
        let mut shared = vec![0_usize; leaders.len()];
        for group in terms.iter().filter_map(|term| by_term.get(term)).flatten() {
            shared[*group] += 1;
        }
        let found = leaders.iter().zip(&shared).find(|((_, count), shared)| is_similar(**shared, *count, terms.len()));
        match found {
            Some(((first, _), _)) => firsts.push(*first),
            None => {
                let count = terms.len();
                for term in terms {
                    by_term.entry(term).or_default().push(leaders.len());
                }
                leaders.push((index, count));
                firsts.push(index);
            }
        }
    }
    firsts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_pairs() {
        let check = |text: &str, expect: &[&str]| {
            let found = terms(text);
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expect, "{text}");
        };
        check("The strength, the OUTLINE!", &["outline", "strength", "the"]);
        check("参数会丢失", &["丢失", "会丢", "参数", "数会"]);
        check("strength 参数 < 0.3", &["0.3", "strength", "参数"]);
        check("ＡＢＣ　ﬁne", &["abc", "fine"]);
        check("知", &["知"]);
        check("  —  ", &[]);
        check("カタカナ", &["カタ", "カナ", "タカ"]);
        assert!(terms(&"知识 a".repeat(2_000_000)).len() <= 4);
        let long: String = (0..50_000).map(|number| format!("w{number} ")).collect();
        assert_eq!(terms(&long).len(), SIMILARITY_TERMS_MAX);
    }

    #[test]
    fn similar_texts_stand_together() {
        let check = |texts: &[&str], expect: &[usize]| {
            assert_eq!(group(texts.iter().copied()), expect, "{texts:?}");
        };
        check(&[], &[]);
        check(&["", ""], &[0, 1]);
        check(
            &[
                "With strength below 0.3 the outline of the original is lost.",
                "Upscale with a low resolution first.",
                "The outline of the original is lost with a strength below 0.3",
            ],
            &[0, 1, 0],
        );
        check(
            &[
                "strength 参数小于 0.3 时会丢失原图轮廓",
                "先用低分辨率试验参数",
                "strength 参数低于 0.3 时，会丢失原图的轮廓",
            ],
            &[0, 1, 0],
        );
        // Each is compared with the first of a group, so that a chain does not join what has nothing in common.
        check(&["a b c d", "c d e f", "e f g h"], &[0, 0, 2]);
    }
}
