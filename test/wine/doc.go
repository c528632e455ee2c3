// Package wine runs the program for Windows in Wine: it starts batch files as servers, serves over HTTP,
// and finds its running process. Wine isn't Windows, so docs/install.md says what has never run on a real
// one. `make wine` runs this test and those of the packages with code for Windows.
package wine
