// Package schema reads the JSON Schemas of peers: the schemas of tool arguments and results,
// and of forms. View finds types, choices and defaults in the bytes that a schema came in.
// Checker checks a value against a schema, with a library for all drafts.
//
// A schema comes from a peer, so the package trusts none of it. It never loads another
// document: a $ref to one makes the schema unusable for Checker, and View does not follow
// it. Size, depth, numbers and the work of one check are bounded. An unusable schema is an
// error of Compile or Check, and the caller decides what to do; a call should not fail
// because of it. The assertion "format" is ignored, because servers disagree about it.
//
// The command line uses the package to read arguments, forms and signatures, and doctor may
// use it to judge schemas. Views and checkers are safe for concurrent use.
package schema
