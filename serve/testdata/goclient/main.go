// Goclient asks a server of the model "tiny" by OpenAI's client for Go, and says done if it gets what it wants. It is a module of
// its own, so that the project does not depend on the client.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"

	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("done")
}

func run(ctx context.Context, url string) error {
	c := openai.NewClient(option.WithBaseURL(url+"/v1/"), option.WithAPIKey("secret"), option.WithMaxRetries(0))
	goOn := option.WithJSONSet("ignore_eos", true)
	list, err := c.Models.List(ctx)
	if err != nil || len(list.Data) != 1 || list.Data[0].ID != "tiny" {
		return fmt.Errorf("models: %+v, %v", list, err)
	}
	text := openai.CompletionNewParams{
		Model: "tiny", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("Hello")},
		MaxTokens: openai.Int(8), Seed: openai.Int(3), N: openai.Int(2), Logprobs: openai.Int(2), Temperature: openai.Float(0.8),
	}
	whole, err := c.Completions.New(ctx, text, goOn)
	if err != nil || len(whole.Choices) != 2 || whole.Usage.CompletionTokens != 16 || len(whole.Choices[0].Logprobs.Tokens) != 8 {
		return fmt.Errorf("completion: %+v, %v", whole, err)
	}
	parts := map[int64]string{}
	for s := c.Completions.NewStreaming(ctx, text, goOn); ; {
		if !s.Next() {
			if s.Err() != nil {
				return s.Err()
			}
			break
		}
		for _, k := range s.Current().Choices {
			parts[k.Index] += k.Text
		}
	}
	if want := map[int64]string{0: whole.Choices[0].Text, 1: whole.Choices[1].Text}; !reflect.DeepEqual(parts, want) {
		return fmt.Errorf("the stream has %q, want %q", parts, want)
	}
	talk := openai.ChatCompletionNewParams{
		Model: "tiny", Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("x"), openai.UserMessage("hi")},
		MaxCompletionTokens: openai.Int(9), Seed: openai.Int(5), Logprobs: openai.Bool(true), TopLogprobs: openai.Int(2),
	}
	said, err := c.Chat.Completions.New(ctx, talk, goOn)
	if err != nil || said.Choices[0].Message.Role != "assistant" || len(said.Choices[0].Logprobs.Content) != 9 || said.Choices[0].FinishReason != "length" {
		return fmt.Errorf("chat completion: %+v, %v", said, err)
	}
	talk.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	var all openai.ChatCompletionAccumulator
	s := c.Chat.Completions.NewStreaming(ctx, talk, goOn)
	for s.Next() {
		if !all.AddChunk(s.Current()) {
			return fmt.Errorf("the chunk %+v does not belong to the stream", s.Current())
		}
	}
	if s.Err() != nil || all.Choices[0].Message.Content != said.Choices[0].Message.Content || all.Usage.TotalTokens != said.Usage.TotalTokens {
		return fmt.Errorf("the stream of a chat completion: %+v, %v, want %+v", all, s.Err(), said)
	}
	var refused *openai.Error
	talk.StreamOptions = openai.ChatCompletionStreamOptionsParam{}
	talk.Model = "other"
	if _, err = c.Chat.Completions.New(ctx, talk); !errors.As(err, &refused) || refused.StatusCode != 404 || refused.Code != "model_not_found" {
		return fmt.Errorf("another model: %v", err)
	}
	talk.Model, talk.Tools = "tiny", []openai.ChatCompletionToolParam{{Function: openai.FunctionDefinitionParam{Name: "f"}}}
	if _, err = c.Chat.Completions.New(ctx, talk); !errors.As(err, &refused) || refused.StatusCode != 400 || refused.Param != "tools" {
		return fmt.Errorf("tools: %v", err)
	}
	stranger := openai.NewClient(option.WithBaseURL(url+"/v1/"), option.WithAPIKey("no"), option.WithMaxRetries(0))
	if _, err = stranger.Models.List(ctx); !errors.As(err, &refused) || refused.StatusCode != 401 {
		return fmt.Errorf("another key: %v", err)
	}
	return nil
}
