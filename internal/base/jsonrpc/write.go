package jsonrpc

import "strconv"

// AppendRequest appends a request. It omits params if they are empty.
func AppendRequest(dst []byte, id ID, method string, params []byte) []byte {
	return appendParams(appendMethod(appendHead(dst, id), method), params)
}

// AppendNotification appends a notification. It omits params if they are empty.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	return appendParams(appendMethod(appendHead(dst, ""), method), params)
}

// AppendResult appends a result. It writes an empty result as {}.
func AppendResult(dst []byte, id ID, result []byte) []byte {
	dst = append(appendHead(dst, id), `,"result":`...)
	if len(result) == 0 {
		result = []byte("{}")
	}
	return append(append(dst, result...), '}')
}

// AppendError appends an error answer for e. It omits an empty id. Revisions 2025-11-25 and later
// require this if the id of the request could not be read. For earlier revisions and plain JSON-RPC
// 2.0 §5, id must be "null". AppendError ignores e.ID.
func AppendError(dst []byte, id ID, e *Error) []byte {
	dst = append(appendHead(dst, id), `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, e.Code, 10)
	dst = append(dst, `,"message":`...)
	dst = AppendQuote(dst, e.Message)
	if len(e.Data) > 0 {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, `}}`...)
}

// AppendStrings appends a JSON array of strings. Each string is written by AppendQuote.
func AppendStrings(dst []byte, all []string) []byte {
	dst = append(dst, '[')
	for i, s := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendQuote(dst, s)
	}
	return append(dst, ']')
}

func appendHead(dst []byte, id ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if id != "" {
		dst = append(dst, `,"id":`...)
		dst = append(dst, id...)
	}
	return dst
}

func appendMethod(dst []byte, method string) []byte {
	return AppendQuote(append(dst, `,"method":`...), method)
}

func appendParams(dst, params []byte) []byte {
	if len(params) > 0 {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}')
}
