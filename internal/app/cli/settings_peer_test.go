package cli

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// settingsPeer is a server of 2025-11-25 on stdio, for the table of settings. It writes its input
// to the file PEER_NOTES. Other environment variables change its answers:
//
//	PEER_HELLO   the initialize result
//	PEER_REFUSE  the message of the error for the first initialize
//	PEER_PUSH    text to write before it reads anything
//	PEER_TOOLS   the tools
//	PEER_OURS    text to write to PEER_NOTES
//	PEER_MUTE    if set, the peer never answers
func settingsPeer() {
	notes, err := os.OpenFile(os.Getenv("PEER_NOTES"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	folder, _ := os.Getwd()
	folder, _ = filepath.EvalSymlinks(folder)
	fmt.Fprintf(notes, "start %q in %s\n", os.Args[1:], folder)
	fmt.Fprintf(notes, "inherited %q\n", os.Getenv("PEER_OURS"))
	if push := os.Getenv("PEER_PUSH"); push != "" {
		fmt.Println(push)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<22)
	refused := false
	for in.Scan() {
		fmt.Fprintln(notes, in.Text())
		m, err := jsonrpc.Scan(in.Bytes(), jsonrpc.Limits{})
		if err != nil || m.Kind != jsonrpc.Request || os.Getenv("PEER_MUTE") != "" {
			continue
		}
		say := func(b []byte) { fmt.Println(string(b)) }
		result := func(text string) { say(jsonrpc.AppendResult(nil, m.ID, []byte(text))) }
		fail := func(code int64, text string) {
			say(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: code, Message: text}))
		}
		if why := os.Getenv("PEER_REFUSE"); m.Method == mcp.MethodInitialize && why != "" && !refused {
			refused = true
			fail(-32000, why)
			continue
		}
		peerAnswer(m, result, fail, say)
	}
}

func peerAnswer(m *jsonrpc.Message, result func(string), fail func(int64, string), say func([]byte)) {
	var name, args string
	if m.Method == mcp.MethodCallTool {
		name, _ = jsonrpc.Text(m.Raw, m.Param("name"))
		args = string(m.Param("arguments").Of(m.Raw))
	}
	token := jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken).Of(m.Raw)
	content := func(text string) {
		result(`{"content":[{"type":"text","text":` + string(jsonrpc.AppendQuote(nil, text)) + `}]}`)
	}
	switch {
	case m.Method == mcp.MethodInitialize:
		hello := os.Getenv("PEER_HELLO")
		if hello == "" {
			version := string(m.Param("protocolVersion").Of(m.Raw))
			if version == "" {
				version = `"2025-06-18"`
			}
			hello = `{"protocolVersion":` + version + `,"capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"peer","version":"1"},"instructions":"theirs"}`
		}
		result(hello)
	case m.Method == mcp.MethodListTools:
		tools := os.Getenv("PEER_TOOLS")
		if tools == "" {
			tools = `[{"name":"echo","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}},{"name":"beat","inputSchema":{"type":"object"}},{"name":"bare","inputSchema":{"type":"object"}},{"name":"fail","inputSchema":{"type":"object"}}]`
		}
		result(`{"tools":` + tools + `}`)
	case m.Method == mcp.MethodListPrompts:
		result(`{"prompts":[{"name":"one"},{"name":"two"}]}`)
	case m.Method == mcp.MethodListResources:
		result(`{"resources":[{"uri":"x:one","name":"one"},{"uri":"x:two","name":"two"}]}`)
	case m.Method == mcp.MethodPing:
		result(`{}`)
	case name == "echo":
		content(args)
	case name == "bare":
		result(`{"bare":1}`)
	case name == "fail":
		fail(4001, "boom")
	case name == "hang":
	case name == "beat": // sends progress forever
		go func() {
			for i := 1; ; i++ {
				time.Sleep(100 * time.Millisecond)
				say(jsonrpc.AppendNotification(nil, mcp.NoteProgress, fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, token, i)))
			}
		}()
	default:
		fail(jsonrpc.CodeMethodNotFound, "Method not found")
	}
}

// settingsWeb returns a server over HTTP that answers like settingsPeer. It speaks Streamable HTTP at
// any path, and HTTP+SSE at /sse. It calls seen with each request.
func settingsWeb(seen func(r *http.Request, body string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body strings.Builder
		_, _ = bufio.NewReader(r.Body).WriteTo(&body)
		seen(r, body.String())
		m, err := jsonrpc.Scan([]byte(body.String()), jsonrpc.Limits{})
		switch {
		case r.Method == http.MethodGet && r.URL.Path == "/sse":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprint(w, "event: endpoint\ndata: /post\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case err != nil || r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.Kind != jsonrpc.Request:
			w.WriteHeader(http.StatusAccepted)
		default:
			w.Header().Set("Content-Type", "application/json")
			if m.Method == mcp.MethodInitialize {
				w.Header().Set("Mcp-Session-Id", "s")
			}
			say := func(b []byte) { _, _ = w.Write(b) }
			peerAnswer(m, func(text string) { say(jsonrpc.AppendResult(nil, m.ID, []byte(text))) },
				func(code int64, text string) {
					say(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: code, Message: text}))
				}, say)
		}
	})
}
