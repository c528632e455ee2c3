// Package form makes forms from the JSON Schemas of peers, and turns the values that a person
// has entered into the bytes of a JSON object.
//
// Make returns the fields of a schema in the order in which a page shows them: required fields
// first. A member that no control can express, for example a choice between several objects, is a
// field with JSON text. If the schema is too large, the whole form is JSON text. Fill puts a JSON
// object into a form, and Read reads the values that a browser has sent. Numbers and JSON text keep
// their bytes. "Not sent", empty text, null and false are different values.
//
// The package does not check values against the schema, except for their syntax; see package
// schema. It makes no HTML. A schema comes from a peer, so its texts are bounded, and so are the
// numbers of fields and choices. Escape the texts before you put them into HTML. A Form is not safe
// for concurrent use.
package form
