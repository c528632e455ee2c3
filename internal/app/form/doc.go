// Package form makes forms from the JSON Schemas of peers, and turns the values that a person
// has entered into the bytes of a JSON object.
//
// Make returns the fields of a schema in the order in which a page shows them: required fields
// first. A member that no control can express, for example a choice between several objects, gets a
// field for JSON text. If the schema is too large, the form has only the JSON text of the object.
// Fill puts a JSON object into a form, and Read reads the values that a browser has sent. Read does
// not change the bytes of numbers and of JSON text. "Not sent", empty text, null and false are
// different values.
//
// This package checks the syntax of values, but does not check values against the schema; package
// schema does. It makes no HTML. A schema comes from a peer, so this package limits the lengths of
// texts and the numbers of fields and choices. Escape the texts before you put them into HTML. A
// Form is not safe for concurrent use.
package form
