// Package schema reads the JSON Schemas of peers: the schemas of tool arguments and results, and of
// forms. View finds types, choices and defaults in the bytes of a schema. Checker checks a value
// against a schema of draft-04, 06, 07, 2019-09 or 2020-12. It is our own (docs/adr/0025): the libraries have
// no limits, or parse the schemas of all editions when the program starts.
//
// A schema comes from a peer, so the package does not trust the schema, and never loads another
// document. A schema with a $ref to another document cannot be used by Checker, and View does not
// follow the reference. Size, depth, numbers, patterns and the work of one check are bounded. If a
// schema cannot be used, Compile or Check returns an error. Callers should not refuse a tool call
// because of this error. The keyword "format" is ignored, because servers use it in different ways.
//
// Views are safe for concurrent use. A Checker is not.
package schema
