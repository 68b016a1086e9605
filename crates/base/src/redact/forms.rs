//! The forms of a value that are searched for in a text and in its decoded forms.

use std::collections::BTreeSet;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

use super::{MAX_LAYERS, decoded::decode, secret::MIN_BYTES};

/// Returns the value and every form of it that is searched for, each once.
///
/// A value may look encoded itself. Its decoded form then is a form too, unless it is so short that it would be found in
/// unrelated texts.
pub(super) fn all(value: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::from([value.to_vec()]);
    // Where a value is no UTF-8, texts show it with replacement characters.
    forms.insert(String::from_utf8_lossy(value).into_owned().into_bytes());
    forms.extend(base64(value));
    let mut encoded: Vec<_> = forms.iter().cloned().collect();
    for _ in 0..MAX_LAYERS {
        let decoded = encoded.iter().filter_map(|form| Some(decode(form)?.bytes));
        encoded = decoded.filter(|form| form.len() >= MIN_BYTES).collect();
        forms.extend(encoded.iter().cloned());
    }
    forms
}

/// Returns the base64 characters that only the value determines, for each of three alignments.
///
/// Three bytes are four characters. A value that begins after one or two bytes of a group shares a character with them.
/// A value that ends within a group shares its last character with the bytes after it. Shared characters and the padding
/// are left out.
fn base64(value: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let alphabets = [STANDARD_NO_PAD, URL_SAFE_NO_PAD];
    alphabets.into_iter().flat_map(move |alphabet| {
        [(0, 0), (1, 2), (2, 3)].map(|(before, shared)| {
            let mut bytes = vec![0; before];
            bytes.extend_from_slice(value);
            let mut text = alphabet.encode(&bytes).into_bytes();
            if bytes.len() % 3 != 0 {
                text.pop();
            }
            text.split_off(shared)
        })
    })
}
