// Command gosdk runs the official Go SDKs of OpenAI and Anthropic against a
// gateway with a scripted provider behind it; see turns.py. It is a module of
// its own, so that the product's has none of their dependencies.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

const (
	hello = "Hello from the fake provider."
	done  = "The tool has answered; all is done."
	call  = `please call the tool get_weather with {"city":"Oslo"} please`
	fail  = "please fail with invalid"
)

var schema = map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}}

// want fails unless got is what was expected.
func want(what string, got, expected any) error {
	if fmt.Sprint(got) != fmt.Sprint(expected) {
		return fmt.Errorf("%s: got %.300q, wanted %q", what, fmt.Sprint(got), fmt.Sprint(expected))
	}
	return nil
}

func chat(ctx context.Context, base, key, model string) error {
	c := openai.NewClient(option.WithBaseURL(base), option.WithAPIKey(key), option.WithMaxRetries(0))
	ask := func(s string) openai.ChatCompletionNewParams {
		return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(s)}}
	}
	r, err := c.Chat.Completions.New(ctx, ask("Hi"))
	if err != nil {
		return err
	}
	if err := want("whole", r.Choices[0].Message.Content, hello); err != nil {
		return err
	}
	p := ask(call)
	p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "get_weather", Parameters: schema})}
	stream, acc := c.Chat.Completions.NewStreaming(ctx, p), openai.ChatCompletionAccumulator{}
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			return errors.New("a chunk that does not fit the ones before")
		}
	}
	if stream.Err() != nil {
		return stream.Err()
	}
	m := acc.Choices[0].Message
	if len(m.ToolCalls) != 1 {
		return fmt.Errorf("calls: %s", m.RawJSON())
	}
	if err := want("call", m.ToolCalls[0].Function.Name+m.ToolCalls[0].Function.Arguments, `get_weather{"city":"Oslo"}`); err != nil {
		return err
	}
	p.Messages = append(p.Messages, m.ToParam(), openai.ToolMessage("Sunny", m.ToolCalls[0].ID))
	if r, err = c.Chat.Completions.New(ctx, p); err != nil {
		return err
	}
	if err := want("result", r.Choices[0].Message.Content, done); err != nil {
		return err
	}
	_, err = c.Chat.Completions.New(ctx, ask(fail))
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != 400 {
		return fmt.Errorf("error: %v", err)
	}
	return nil
}

func response(ctx context.Context, base, key, model string) error {
	c := openai.NewClient(option.WithBaseURL(base), option.WithAPIKey(key), option.WithMaxRetries(0))
	p := responses.ResponseNewParams{Model: model, Store: openai.Bool(false), Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Hi")}}
	r, err := c.Responses.New(ctx, p)
	if err != nil {
		return err
	}
	if err := want("whole", r.OutputText(), hello); err != nil {
		return err
	}
	stream := c.Responses.NewStreaming(ctx, p)
	text, last := "", ""
	for stream.Next() {
		ev := stream.Current()
		if last = ev.Type; ev.Type == "response.output_text.delta" {
			text += ev.Delta
		}
	}
	if stream.Err() != nil {
		return stream.Err()
	}
	return want("stream", text+" "+last, hello+" response.completed")
}

func message(ctx context.Context, base, key, model string) error {
	c := anthropic.NewClient(anthropicoption.WithBaseURL(strings.TrimSuffix(base, "/v1")), anthropicoption.WithAPIKey(key), anthropicoption.WithMaxRetries(0))
	p := anthropic.MessageNewParams{Model: anthropic.Model(model), MaxTokens: 64, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hi"))}}
	r, err := c.Messages.New(ctx, p)
	if err != nil {
		return err
	}
	if err := want("whole", r.Content[0].Text, hello); err != nil {
		return err
	}
	p.Messages[0] = anthropic.NewUserMessage(anthropic.NewTextBlock(call))
	p.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: "get_weather", InputSchema: anthropic.ToolInputSchemaParam{Properties: schema["properties"], Required: []string{"city"}}}}}
	stream, m := c.Messages.NewStreaming(ctx, p), anthropic.Message{}
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil {
			return err
		}
	}
	if stream.Err() != nil {
		return stream.Err()
	}
	use := m.Content[len(m.Content)-1]
	var args map[string]string
	if err := json.Unmarshal(use.Input, &args); err != nil {
		return err
	}
	if err := want("call", use.Name+" "+args["city"]+" "+string(m.StopReason), "get_weather Oslo tool_use"); err != nil {
		return err
	}
	p.Messages = append(p.Messages, m.ToParam(), anthropic.NewUserMessage(anthropic.NewToolResultBlock(use.ID, "Sunny", false)))
	if r, err = c.Messages.New(ctx, p); err != nil {
		return err
	}
	if err := want("result", r.Content[0].Text, done); err != nil {
		return err
	}
	p.Messages = []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(fail))}
	_, err = c.Messages.New(ctx, p)
	var e *anthropic.Error
	if !errors.As(err, &e) || e.StatusCode != 400 {
		return fmt.Errorf("error: %v", err)
	}
	return nil
}

func main() {
	base, key := os.Getenv("BASE_URL"), os.Getenv("API_KEY")
	failed := false
	for _, c := range []struct {
		name string
		run  func(ctx context.Context, base, key, model string) error
	}{{"openai-go chat", chat}, {"openai-go responses", response}, {"anthropic-sdk-go", message}} {
		for model := range strings.SplitSeq(os.Getenv("MODELS"), ",") {
			if err := c.run(context.Background(), base, key, model); err != nil {
				failed = true
				fmt.Printf("FAIL %s through %s: %v\n", c.name, model, err)
				continue
			}
			fmt.Printf("ok   %s through %s\n", c.name, model)
		}
	}
	if failed {
		os.Exit(1)
	}
}
