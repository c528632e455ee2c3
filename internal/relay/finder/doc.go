// Package finder has the four tools of search mode (docs/search-mode.md): a client that searches sees them in place
// of all tools of all servers. It writes their definitions and answers, and reads their arguments.
//
// search_tools and describe_tools are answered from a [Tools], which has only what the client may see, so nothing
// here can name anything else. call_read_tool and call_tool name another tool; [Inner] finds out which and with what
// arguments, and the gateway makes the call one of that tool. What models get wrong is said in the result of the
// tool, with the next step, and never guessed: policy and server must agree about which tool it is.
//
// The package sends nothing and keeps nothing but compiled schemas, in [Checks]. Definitions and titles come from
// servers, so they're cut, and what could be mistaken for our own lines is escaped.
package finder
