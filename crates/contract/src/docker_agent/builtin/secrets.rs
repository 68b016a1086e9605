//! Patterns of secrets, and their redaction in texts.
//!
//! Apart from those that name their context, no pattern depends on the text around a match. Matches that overlap can leave a part in which
//! another is found, so texts are searched until there is none.

use std::{iter, ops::Range, sync::LazyLock};

use regex::{Regex, RegexSet};

use hookjail_base::redact::{lossy, replaced, rewrite_strings};

/// The replacement of a secret. No pattern matches it.
const MARKER: &str = "[REDACTED]";

/// Patterns of secrets, each after a hint that every match contains. Where a pattern names a `secret`, that group alone
/// is replaced, and the rest is its context.
pub(super) const PATTERNS: [(&str, &str); 62] = [
    // Clouds.
    (
        "A3T|ABIA|ACCA|AGPA|AIDA|AIPA|AKIA|ANPA|ANVA|AROA|ASIA",
        "(?:A3T[A-Z0-9]|ABIA|ACCA|AGPA|AIDA|AIPA|AKIA|ANPA|ANVA|AROA|ASIA)[A-Z0-9]{16}",
    ),
    (
        "(?i)aws",
        r#"(?i)aws[a-z0-9_. -]{0,20}key["']?[ \t]{0,3}(?:=>|:=|[:=,])[ \t]{0,3}["']?(?P<secret>[a-z0-9/+=]{40})"#,
    ),
    (
        "(?i)AccountKey=",
        "(?i)AccountKey=(?P<secret>[a-z0-9+/=]{40,})",
    ),
    ("AIza", "AIza[A-Za-z0-9_-]{35}"),
    ("GOCSPX-", "GOCSPX-[A-Za-z0-9_-]{28}"),
    (r"ya29\.", r"ya29\.[A-Za-z0-9_-]{20,}"),
    ("do[opr]_v1_", "do[opr]_v1_[a-f0-9]{64}"),
    ("LTAI", "LTAI[A-Za-z0-9]{20}"),
    (r"v1\.0-", "v1\\.0-[a-f0-9]{24}-[a-f0-9]{146}"),
    // Forges, registries and builds.
    ("gh[opsur]_", "gh[opsur]_[A-Za-z0-9]{36,255}"),
    ("github_pat_", "github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    (
        "gl(?:agent|cbt|dt|ffct|ft|imt|oas|pat|ptt|rt|soat)-",
        "gl(?:agent|cbt|dt|ffct|ft|imt|oas|pat|ptt|rt|soat)-[A-Za-z0-9_-]{20,}",
    ),
    ("ATATT3", "ATATT3[A-Za-z0-9_=-]{180,}"),
    ("ATBB", "ATBB[A-Za-z0-9]{32}"),
    ("CCIPAT_", "CCIPAT_[A-Za-z0-9]{22}_[a-f0-9]{40}"),
    ("bkua_", "bkua_[a-z0-9]{40}"),
    ("dckr_", "dckr_(?:oat|pat)_[A-Za-z0-9_-]{20,}"),
    ("npm_", "npm_[A-Za-z0-9]{36}"),
    ("pypi-AgE", "pypi-AgE[A-Za-z0-9_-]{50,}"),
    ("rubygems_", "rubygems_[a-f0-9]{48}"),
    ("sq[apu]_", "sq[apu]_[a-f0-9]{40}"),
    // Models.
    (
        "sk-(?:admin|ant|or|proj|svcacct)-",
        "sk-(?:admin|ant-admin[0-9]{2}|ant-api[0-9]{2}|or-v1|proj|svcacct)-[A-Za-z0-9_-]{32,}",
    ),
    ("T3BlbkFJ", "sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"),
    ("sk-", "sk-[A-Za-z0-9]{48}"),
    (
        "(?i)deepseek",
        r#"(?i)deepseek[a-z0-9_. -]{0,20}["']?[ \t]{0,3}(?:=>|:=|[:=,])[ \t]{0,3}["']?(?P<secret>sk-[a-f0-9]{32})"#,
    ),
    ("(?:api_org|hf)_", "(?:api_org|hf)_[A-Za-z0-9]{34,}"),
    ("gsk_", "gsk_[A-Za-z0-9]{52}"),
    ("lsv2_", "lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    ("nvapi-", "nvapi-[A-Za-z0-9_-]{60,}"),
    ("pcsk_", "pcsk_[A-Za-z0-9]{5,6}_[A-Za-z0-9]{60,}"),
    ("pplx-", "pplx-[A-Za-z0-9]{48}"),
    ("r8_", "r8_[A-Za-z0-9]{37}"),
    ("xai-", "xai-[A-Za-z0-9]{70,}"),
    // Payments.
    (
        "[prs]k_(?:live|prod|test)_",
        "(?:pk|rk|sk)_(?:live|prod|test)_[A-Za-z0-9]{10,}",
    ),
    ("whsec_", "whsec_[A-Za-z0-9+/=]{32,}"),
    ("rzp_", "rzp_(?:live|test)_[A-Za-z0-9]{14}"),
    ("shp(?:at|ca|pa|ss)_", "shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    // Messages.
    ("xox[abeoprs]-", "xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("xapp-", "xapp-[0-9]-[A-Z0-9]+-[0-9]+-[a-f0-9]{64}"),
    (
        r"hooks\.slack\.com/",
        r"hooks\.slack\.com/(?:services|triggers|workflows)/(?P<secret>[A-Za-z0-9/]{20,})",
    ),
    (
        "api/webhooks/",
        r"discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/(?P<secret>[A-Za-z0-9_-]{60,})",
    ),
    (":AA", "[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    ("SK", "SK[0-9a-fA-F]{32}"),
    (r"SG\.", r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    (
        "(?i)mailgun",
        r#"(?i)mailgun[a-z0-9_. -]{0,20}["']?[ \t]{0,3}(?:=>|:=|[:=,])[ \t]{0,3}["']?(?P<secret>key-[a-f0-9]{32})"#,
    ),
    ("-us[0-9]", "[a-f0-9]{32}-us[0-9]{1,2}"),
    ("xkeysib-", "xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    // Infrastructure.
    (
        r"\.atlasv1\.",
        r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}",
    ),
    (r"hv[bsr]\.", r"hv[bsr]\.[A-Za-z0-9_-]{24,}"),
    ("dapi", "dapi[a-h0-9]{32}"),
    (
        r"dp\.",
        r"dp\.(?:audit|ct|pt|sa|scim|st)\.[A-Za-z0-9._-]{40,}",
    ),
    ("figd_", "figd_[A-Za-z0-9_-]{40}"),
    ("glsa_", "glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}"),
    ("lin_api_", "lin_api_[A-Za-z0-9]{40}"),
    ("ntn_", "ntn_[A-Za-z0-9]{40,}"),
    ("ops_eyJ", "ops_eyJ[A-Za-z0-9_=-]{100,}"),
    ("pscale_", "pscale_(?:oauth|pw|tkn)_[A-Za-z0-9_.=-]{32,}"),
    ("tskey-", "tskey-[a-z]+-[A-Za-z0-9-]{10,}"),
    (
        "://",
        r#"(?i)(?:amqps?|mariadb|mongodb(?:\+srv)?|mysql|postgres(?:ql)?|rediss?)://[^\s:@/"'\[\]]*:(?P<secret>[^\s@/"'\\\[\]]+)@"#,
    ),
    // Keys and signed tokens of any origin.
    (
        "AGE-SECRET-KEY-1",
        "AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}",
    ),
    (
        r"\.eyJ",
        r"eyJ[A-Za-z0-9_-]{14,}\.eyJ[A-Za-z0-9_-]{14,}\.[A-Za-z0-9_-]{10,}",
    ),
    // Its end may have been cut off.
    (
        "PRIVATE KEY",
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:(?:\s|\\[nr])*[A-Za-z-]+: [^\r\n\\]*)*(?P<secret>(?:[A-Za-z0-9+/=\\]|\r?\n[ \t]*){40,})",
    ),
];

/// The compiled patterns. A test compiles each.
static PREPARED: LazyLock<Prepared> = LazyLock::new(|| Prepared {
    hints: RegexSet::new(PATTERNS.map(|(hint, _)| hint)).ok(),
    patterns: PATTERNS.map(|(_, pattern)| Regex::new(pattern).ok()),
});

struct Prepared {
    /// The set of all hints. Most texts contain none, and are searched once for all patterns. A set of the patterns
    /// would be too large to be fast.
    hints: Option<RegexSet>,
    patterns: [Option<Regex>; PATTERNS.len()],
}

/// Redacts secrets in strings of a JSON value; `None` if there are none. Everything else stays byte for byte, also the
/// strings under the `opaque` keys.
pub(super) fn redacted_json(json: &str, opaque: &[&str]) -> Option<String> {
    rewrite_strings(json, opaque, redacted)
}

/// How often a text is searched at most.
const PASSES: usize = 16;

/// Redacts secrets in a text; `None` if there are none.
pub(super) fn redacted(text: &str) -> Option<String> {
    let cleaner = iter::successors(redacted_once(text), |clean| redacted_once(clean));
    cleaner.take(PASSES).last()
}

fn redacted_once(text: &str) -> Option<String> {
    let spans = spans(text).into_iter().map(|span| (span, MARKER));
    replaced(text.as_bytes(), spans.collect()).map(lossy)
}

fn spans(text: &str) -> Vec<Range<usize>> {
    let prepared = &*PREPARED;
    let candidates: Vec<usize> = match &prepared.hints {
        Some(hints) => hints.matches(text).into_iter().collect(),
        None => (0..PATTERNS.len()).collect(),
    };
    let mut spans = Vec::new();
    for regex in candidates
        .iter()
        .filter_map(|index| prepared.patterns[*index].as_ref())
    {
        let mut position = 0;
        while let Some(found) = regex.captures_at(text, position) {
            let Some(secret) = found.name("secret").or_else(|| found.get(0)) else {
                break;
            };
            spans.push(secret.range());
            // The text after the secret may be the context of the next one.
            position = secret.end();
        }
    }
    spans
}
