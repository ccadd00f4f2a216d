package conform

import (
	"encoding/json"
	"net/url"
)

// Ask is a request in no dialect.
type Ask struct {
	System string `json:"system,omitempty"`
	Turns  []Turn `json:"turns"`
	Tools  []Tool `json:"tools,omitempty"`
	// Choice is "auto", "none", "required" or the name of a tool.
	Choice   string          `json:"choice,omitempty"`
	Serial   bool            `json:"serial,omitempty"` // at most one call
	Strict   bool            `json:"strict,omitempty"` // arguments must match
	Schema   json.RawMessage `json:"schema,omitempty"` // of the answer
	JSON     bool            `json:"json,omitempty"`   // the answer is any JSON object
	Max      int             `json:"max,omitempty"`    // default 256
	Temp     *float64        `json:"temperature,omitempty"`
	TopP     *float64        `json:"top_p,omitempty"`
	Stop     []string        `json:"stop,omitempty"`
	Thinking int             `json:"thinking,omitempty"` // budget in tokens
	NoUsage  bool            `json:"no_usage,omitempty"` // do not ask for usage on a stream
	Repeat   int             `json:"repeat,omitempty"`   // repeat the first turn's text so often
}

// Turn is one message: exactly one of Text, Calls and Result, Image beside Text.
type Turn struct {
	Role   string `json:"role"` // "user", "assistant", "tool"
	Text   string `json:"text,omitempty"`
	Image  string `json:"image,omitempty"` // PNG, base64
	Calls  []Call `json:"calls,omitempty"`
	CallID string `json:"call_id,omitempty"`
	Name   string `json:"name,omitempty"` // of the tool whose result this is
	Result string `json:"result,omitempty"`
	Failed bool   `json:"failed,omitempty"` // the result tells of a failure
}

// Tool is a function that may be called.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
}

// Call is a call of a tool. Args is JSON text.
type Call struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	Args string `json:"args"`
}

type obj = map[string]any

type list = []any

// Write gives path and body of the request in a dialect.
func (a *Ask) Write(dialect, model string, stream bool) (path string, body []byte) {
	var o obj
	switch dialect {
	case Chat:
		path, o = "/v1/chat/completions", a.chat(model, stream)
	case Responses:
		path, o = "/v1/responses", a.responses(model, stream)
	case Messages:
		path, o = "/v1/messages", a.messages(model, stream)
	case Gemini:
		path, o = "/v1beta/models/"+url.PathEscape(model)+":generateContent", a.gemini()
		if stream {
			path = "/v1beta/models/" + url.PathEscape(model) + ":streamGenerateContent?alt=sse"
		}
	case Ollama:
		path, o = "/api/chat", a.ollama(model, stream)
	default:
		panic("BUG: no inbound dialect " + dialect)
	}
	b, err := json.Marshal(o)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return path, b
}

func (a *Ask) max() int {
	if a.Max == 0 {
		return 256
	}
	return a.Max
}

func set[T any](o obj, key string, v *T) {
	if v != nil {
		o[key] = *v
	}
}

func (a *Ask) chat(model string, stream bool) obj {
	var ms list
	if a.System != "" {
		ms = append(ms, obj{"role": "system", "content": a.System})
	}
	for _, t := range a.Turns {
		m := obj{"role": t.Role, "content": t.Text}
		switch {
		case t.Role == "tool":
			m = obj{"role": "tool", "tool_call_id": t.CallID, "content": t.Result}
		case len(t.Calls) > 0:
			var cs list
			for _, c := range t.Calls {
				cs = append(cs, obj{"id": c.ID, "type": "function", "function": obj{"name": c.Name, "arguments": c.Args}})
			}
			m["tool_calls"] = cs
			if t.Text == "" {
				m["content"] = nil
			}
		case t.Image != "":
			m["content"] = list{obj{"type": "text", "text": t.Text}, obj{"type": "image_url", "image_url": obj{"url": "data:image/png;base64," + t.Image}}}
		}
		ms = append(ms, m)
	}
	o := obj{"model": model, "messages": ms, "max_completion_tokens": a.max()}
	if stream {
		o["stream"] = true
		if !a.NoUsage {
			o["stream_options"] = obj{"include_usage": true}
		}
	}
	if len(a.Tools) > 0 {
		var ts list
		for _, t := range a.Tools {
			f := obj{"name": t.Name, "description": t.Description, "parameters": t.Schema}
			if a.Strict {
				f["strict"] = true
			}
			ts = append(ts, obj{"type": "function", "function": f})
		}
		o["tools"] = ts
	}
	switch a.Choice {
	case "":
	case "auto", "none", "required":
		o["tool_choice"] = a.Choice
	default:
		o["tool_choice"] = obj{"type": "function", "function": obj{"name": a.Choice}}
	}
	if a.Serial {
		o["parallel_tool_calls"] = false
	}
	if a.Schema != nil {
		o["response_format"] = obj{"type": "json_schema", "json_schema": obj{"name": "answer", "strict": true, "schema": a.Schema}}
	} else if a.JSON {
		o["response_format"] = obj{"type": "json_object"}
	}
	set(o, "temperature", a.Temp)
	set(o, "top_p", a.TopP)
	if len(a.Stop) > 0 {
		o["stop"] = a.Stop
	}
	return o
}

func (a *Ask) responses(model string, stream bool) obj {
	var in list
	for _, t := range a.Turns {
		switch {
		case t.Role == "tool":
			in = append(in, obj{"type": "function_call_output", "call_id": t.CallID, "output": t.Result})
		case t.Role == "assistant":
			if t.Text != "" {
				in = append(in, obj{"type": "message", "role": "assistant", "content": list{obj{"type": "output_text", "text": t.Text, "annotations": list{}}}})
			}
			for _, c := range t.Calls {
				in = append(in, obj{"type": "function_call", "call_id": c.ID, "name": c.Name, "arguments": c.Args})
			}
		default:
			parts := list{obj{"type": "input_text", "text": t.Text}}
			if t.Image != "" {
				parts = append(parts, obj{"type": "input_image", "image_url": "data:image/png;base64," + t.Image, "detail": "auto"})
			}
			in = append(in, obj{"type": "message", "role": "user", "content": parts})
		}
	}
	o := obj{"model": model, "input": in, "max_output_tokens": a.max(), "store": false}
	if a.System != "" {
		o["instructions"] = a.System
	}
	if stream {
		o["stream"] = true
	}
	if len(a.Tools) > 0 {
		var ts list
		for _, t := range a.Tools {
			ts = append(ts, obj{"type": "function", "name": t.Name, "description": t.Description, "parameters": t.Schema, "strict": a.Strict})
		}
		o["tools"] = ts
	}
	switch a.Choice {
	case "":
	case "auto", "none", "required":
		o["tool_choice"] = a.Choice
	default:
		o["tool_choice"] = obj{"type": "function", "name": a.Choice}
	}
	if a.Serial {
		o["parallel_tool_calls"] = false
	}
	if a.Schema != nil {
		o["text"] = obj{"format": obj{"type": "json_schema", "name": "answer", "strict": true, "schema": a.Schema}}
	} else if a.JSON {
		o["text"] = obj{"format": obj{"type": "json_object"}}
	}
	set(o, "temperature", a.Temp)
	set(o, "top_p", a.TopP)
	return o
}

func (a *Ask) messages(model string, stream bool) obj {
	var ms list
	for _, t := range a.Turns {
		role, parts := t.Role, list{}
		if t.Text != "" {
			parts = append(parts, obj{"type": "text", "text": t.Text})
		}
		if t.Image != "" {
			parts = append(parts, obj{"type": "image", "source": obj{"type": "base64", "media_type": "image/png", "data": t.Image}})
		}
		for _, c := range t.Calls {
			parts = append(parts, obj{"type": "tool_use", "id": c.ID, "name": c.Name, "input": json.RawMessage(c.Args)})
		}
		if t.Role == "tool" {
			r := obj{"type": "tool_result", "tool_use_id": t.CallID, "content": t.Result}
			if t.Failed {
				r["is_error"] = true
			}
			role, parts = "user", append(parts, r)
			if n := len(ms); n > 0 && ms[n-1].(obj)["role"] == "user" { // several results are one turn
				last := ms[n-1].(obj)
				last["content"] = append(last["content"].(list), parts...)
				continue
			}
		}
		ms = append(ms, obj{"role": role, "content": parts})
	}
	o := obj{"model": model, "messages": ms, "max_tokens": a.max()}
	if a.System != "" {
		o["system"] = a.System
	}
	if stream {
		o["stream"] = true
	}
	if len(a.Tools) > 0 {
		var ts list
		for _, t := range a.Tools {
			d := obj{"name": t.Name, "description": t.Description, "input_schema": t.Schema}
			if a.Strict {
				d["strict"] = true
			}
			ts = append(ts, d)
		}
		o["tools"] = ts
	}
	choice := obj{}
	switch a.Choice {
	case "":
		choice["type"] = "auto"
	case "auto", "none":
		choice["type"] = a.Choice
	case "required":
		choice["type"] = "any"
	default:
		choice["type"], choice["name"] = "tool", a.Choice
	}
	if a.Serial {
		choice["disable_parallel_tool_use"] = true
	}
	if a.Choice != "" || a.Serial {
		o["tool_choice"] = choice
	}
	if a.Schema != nil {
		o["output_config"] = obj{"format": obj{"type": "json_schema", "schema": a.Schema}}
	}
	if a.Thinking > 0 {
		o["thinking"] = obj{"type": "enabled", "budget_tokens": a.Thinking}
	}
	set(o, "temperature", a.Temp)
	set(o, "top_p", a.TopP)
	if len(a.Stop) > 0 {
		o["stop_sequences"] = a.Stop
	}
	return o
}

func (a *Ask) gemini() obj {
	var cs list
	for _, t := range a.Turns {
		role, parts := "user", list{}
		if t.Role == "assistant" {
			role = "model"
		}
		if t.Text != "" {
			parts = append(parts, obj{"text": t.Text})
		}
		if t.Image != "" {
			parts = append(parts, obj{"inlineData": obj{"mimeType": "image/png", "data": t.Image}})
		}
		for _, c := range t.Calls {
			parts = append(parts, obj{"functionCall": obj{"id": c.ID, "name": c.Name, "args": json.RawMessage(c.Args)}})
		}
		if t.Role == "tool" {
			parts = append(parts, obj{"functionResponse": obj{"id": t.CallID, "name": t.Name, "response": obj{"result": t.Result}}})
			if n := len(cs); n > 0 && cs[n-1].(obj)["role"] == "user" {
				last := cs[n-1].(obj)
				last["parts"] = append(last["parts"].(list), parts...)
				continue
			}
		}
		cs = append(cs, obj{"role": role, "parts": parts})
	}
	g := obj{"maxOutputTokens": a.max()}
	o := obj{"contents": cs, "generationConfig": g}
	if a.System != "" {
		o["systemInstruction"] = obj{"parts": list{obj{"text": a.System}}}
	}
	if len(a.Tools) > 0 {
		var fs list
		for _, t := range a.Tools {
			fs = append(fs, obj{"name": t.Name, "description": t.Description, "parametersJsonSchema": t.Schema})
		}
		o["tools"] = list{obj{"functionDeclarations": fs}}
	}
	switch a.Choice {
	case "":
	case "auto", "none", "required":
		o["toolConfig"] = obj{"functionCallingConfig": obj{"mode": map[string]string{"auto": "AUTO", "none": "NONE", "required": "ANY"}[a.Choice]}}
	default:
		o["toolConfig"] = obj{"functionCallingConfig": obj{"mode": "ANY", "allowedFunctionNames": list{a.Choice}}}
	}
	if a.Schema != nil {
		g["responseMimeType"], g["responseJsonSchema"] = "application/json", a.Schema
	} else if a.JSON {
		g["responseMimeType"] = "application/json"
	}
	if a.Thinking > 0 {
		g["thinkingConfig"] = obj{"thinkingBudget": a.Thinking, "includeThoughts": true}
	}
	set(g, "temperature", a.Temp)
	set(g, "topP", a.TopP)
	if len(a.Stop) > 0 {
		g["stopSequences"] = a.Stop
	}
	return o
}

func (a *Ask) ollama(model string, stream bool) obj {
	var ms list
	if a.System != "" {
		ms = append(ms, obj{"role": "system", "content": a.System})
	}
	for _, t := range a.Turns {
		m := obj{"role": t.Role, "content": t.Text}
		if t.Role == "tool" {
			m = obj{"role": "tool", "content": t.Result, "tool_name": t.Name, "tool_call_id": t.CallID}
		}
		if t.Image != "" {
			m["images"] = list{t.Image}
		}
		var cs list
		for _, c := range t.Calls {
			cs = append(cs, obj{"id": c.ID, "function": obj{"name": c.Name, "arguments": json.RawMessage(c.Args)}})
		}
		if cs != nil {
			m["tool_calls"] = cs
		}
		ms = append(ms, m)
	}
	opt := obj{"num_predict": a.max()}
	o := obj{"model": model, "messages": ms, "stream": stream, "options": opt}
	if len(a.Tools) > 0 {
		var ts list
		for _, t := range a.Tools {
			ts = append(ts, obj{"type": "function", "function": obj{"name": t.Name, "description": t.Description, "parameters": t.Schema}})
		}
		o["tools"] = ts
	}
	if a.Schema != nil {
		o["format"] = a.Schema
	} else if a.JSON {
		o["format"] = "json"
	}
	set(opt, "temperature", a.Temp)
	set(opt, "top_p", a.TopP)
	if len(a.Stop) > 0 {
		opt["stop"] = a.Stop
	}
	return o
}
