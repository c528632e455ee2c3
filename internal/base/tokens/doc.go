// Package tokens estimates the number of tokens that a server needs in a model's context. Clients
// give the model the name, the description and the input schema of each tool, and usually the
// server's instructions. Resources and prompts cost nothing until they are used.
//
// The result is an estimate, because each model counts in its own way. A word counts as one token
// per twelve letters, a number as one token per three digits, and a sequence of punctuation as one
// token per three characters. Each of these results is rounded up. A character beyond ASCII counts
// as one token. White space is not counted. For the tools of eleven servers from npm, the estimate
// was between 1 % below and 7 % above the counts of the tokenizers o200k_base and cl100k_base. Text
// in scripts other than Latin is overestimated.
//
// The package keeps no state, does no I/O and is safe for concurrent use. The commands, the admin
// API and the console all use the package, so they show the same numbers.
package tokens
