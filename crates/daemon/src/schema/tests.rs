use std::{fs, path::Path};

use super::*;

#[test]
fn the_schemas_in_the_tree_are_those_of_the_code() {
    for form in Form::ALL {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("../../schemas/{}.schema.json", form.name()));
        let text = format!("{:#}\n", form.schema());
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            kept,
            text,
            "{}: run this test with UPDATE_DOCS=1",
            path.display()
        );
    }
}

#[test]
fn every_key_is_described() {
    fn described(form: Form, path: &str, schema: &Value) {
        let properties = schema.get("properties").and_then(Value::as_object);
        for (key, property) in properties.into_iter().flatten() {
            let refers = property.get("$ref").is_some();
            let says = property.get("description").is_some() || property.get("const").is_some();
            assert!(says || refers, "{form:?}: {path}/{key}: {property}");
        }
        for (key, below) in schema.as_object().into_iter().flatten() {
            described(form, &format!("{path}/{key}"), below);
        }
        for below in schema.as_array().into_iter().flatten() {
            described(form, path, below);
        }
    }
    for form in Form::ALL {
        described(form, "", &form.schema());
    }
}
