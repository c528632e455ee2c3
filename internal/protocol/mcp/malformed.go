package mcp

import (
	"errors"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Values of data.code in the errors of initialize and server/discover. JSON-RPC requires the code
// of an error to be a number, so these words are in data. Other servers use the same words.
const (
	dataMalformed = "MALFORMED_REQUEST"
	dataInternal  = "INTERNAL_ERROR"
)

// Malformed returns the error for an initialize request with a member that is missing or has the
// wrong type. member is the path of the member, such as params.clientInfo, and must is the required
// type, such as "an object".
func Malformed(member, must string) *jsonrpc.Error {
	d := jsonrpc.AppendQuote([]byte(`{"code":"`+dataMalformed+`","member":`), member)
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "initialize is malformed: " + member + " must be " + must, Data: append(d, '}')}
}

// RefusedByScan returns the error to send to a client if jsonrpc.Scan has refused a message with
// the error e. If e is not about the params of initialize, RefusedByScan returns e itself.
func RefusedByScan(e *jsonrpc.Error) *jsonrpc.Error {
	if e.Method != MethodInitialize || e.Code != jsonrpc.CodeInvalidParams {
		return e
	}
	out := Malformed("params", "an object")
	out.ID, out.Method = e.ID, e.Method
	return out
}

// WireHandshake does the same as Wire for the failure of a handshake with a client. If the code is
// CodeInternal and the error did not come from a server, data.code is dataInternal.
func WireHandshake(err error) *jsonrpc.Error {
	out := Wire(err)
	var ours *Error
	var theirs *jsonrpc.Error
	if out.Code != jsonrpc.CodeInternal || !errors.As(err, &ours) && errors.As(err, &theirs) {
		return out
	}
	own := *out
	own.Data = []byte(`{"code":"` + dataInternal + `"}`)
	if len(out.Data) > 2 {
		own.Data = append(append(own.Data[:len(own.Data)-1], ','), out.Data[1:]...)
	}
	return &own
}
