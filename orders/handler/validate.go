package handler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/gin-gonic/gin"

	"example.com/stock/orders/api"
)

const (
	maxBody    = 64 << 10
	readLimit  = 10 * time.Second
	writeLimit = 40 * time.Second // with the reading, and the longest step, which takes 20 s
	idleLimit  = 2 * time.Minute
)

// A validator refuses requests that break the document.
type validator struct {
	routes  map[string]*routers.Route // by method and path as gin writes it
	options *openapi3filter.Options
	who     Identifier
}

func newValidator(who Identifier) (*validator, error) {
	doc, err := api.GetSpec()
	if err != nil {
		return nil, err
	}
	v := &validator{who: who, routes: map[string]*routers.Route{}, options: &openapi3filter.Options{
		MultiError:                        true,
		RejectWhenRequestBodyNotSpecified: true,
		SkipSettingDefaults:               true,                                  // or else the fingerprint changes
		KeepValidatedValue:                true,                                  // the body is decoded once
		AuthenticationFunc:                openapi3filter.NoopAuthenticationFunc, // identify has done it
	}}
	braces := strings.NewReplacer("{", ":", "}", "")
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			v.routes[method+" "+braces.Replace(path)] = &routers.Route{
				Spec: doc, Path: path, PathItem: item, Method: method, Operation: operation,
			}
		}
	}
	return v, nil
}

// operation returns the name of the operation that a request is for.
func (v *validator) operation(c *gin.Context) string {
	if route := v.routes[c.Request.Method+" "+c.FullPath()]; route != nil {
		return route.Operation.OperationID
	}
	return "none"
}

func (v *validator) validate(c *gin.Context) {
	route := v.routes[c.Request.Method+" "+c.FullPath()]
	if route == nil {
		return // it is answered by NoRoute or NoMethod
	}
	if err := identify(c, route, v.who); err != nil {
		fail(c, err)
		return
	}
	params := make(map[string]string, len(c.Params))
	for _, p := range c.Params {
		params[p.Key] = p.Value
	}
	err := errors.Join(checkParameters(c.Request, route), checkBody(c.Request))
	if err == nil {
		err = openapi3filter.ValidateRequest(c.Request.Context(), &openapi3filter.RequestValidationInput{
			Request: c.Request, PathParams: params, Route: route, Options: v.options,
		})
	}
	if err != nil {
		fail(c, invalid(err))
	}
}

// checkParameters refuses what is given twice, and what is not in the document.
func checkParameters(r *http.Request, route *routers.Route) error {
	for name, values := range r.URL.Query() {
		switch {
		case route.Operation.Parameters.GetByInAndName("query", name) == nil:
			return &fieldError{name, "unknown", ""}
		case len(values) > 1:
			return &fieldError{name, "given twice", ""}
		}
	}
	for _, p := range route.Operation.Parameters {
		if p.Value.In == "header" && len(r.Header.Values(p.Value.Name)) > 1 {
			return &fieldError{p.Value.Name, "given twice", ""}
		}
	}
	return nil
}

// checkBody reads the body, and refuses what the document cannot: see checkJSON.
func checkBody(r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if len(body) == 0 {
		return nil
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, given := params["charset"]
	if err != nil || kind != "application/json" || given && !strings.EqualFold(charset, "utf-8") {
		return errMediaType
	}
	return checkJSON(body)
}

// fieldErrors says which fields of a request break which rule of the document.
func fieldErrors(err error) (all []api.FieldError) {
	var list openapi3.MultiError
	switch e := err.(type) {
	case openapi3.MultiError:
		list = e
	case *fieldError:
		return []api.FieldError{{Field: e.field, Rule: e.rule, Limit: e.limit}}
	case *openapi3filter.RequestError:
		return ofRequest(e)
	case *json.UnmarshalTypeError: // such as 1.0, which is an integer for the document, and not for Go
		return []api.FieldError{{Field: e.Field, Rule: "type", Limit: e.Type.String()}}
	case *openapi3.SchemaError:
		return []api.FieldError{fieldOf(e)}
	case interface{ Unwrap() []error }:
		list = e.Unwrap()
	}
	for _, e := range list {
		all = append(all, fieldErrors(e)...)
	}
	return all
}

func ofRequest(e *openapi3filter.RequestError) []api.FieldError {
	all := fieldErrors(e.Err)
	switch {
	case e.Parameter != nil && all == nil:
		all = []api.FieldError{{Rule: "required"}}
	case e.RequestBody != nil && errors.Is(e.Err, openapi3filter.ErrInvalidRequired):
		return []api.FieldError{{Field: "body", Rule: "required"}}
	case e.RequestBody == nil && all == nil:
		return []api.FieldError{{Field: "body", Rule: "unknown"}}
	}
	for i := range all {
		if e.Parameter != nil {
			all[i].Field = e.Parameter.Name
		}
	}
	return all
}

func fieldOf(e *openapi3.SchemaError) api.FieldError {
	var field strings.Builder
	for _, part := range e.JSONPointer() {
		switch {
		case part[0] >= '0' && part[0] <= '9':
			fmt.Fprintf(&field, "[%s]", part)
		case field.Len() > 0:
			field.WriteString("." + part)
		default:
			field.WriteString(part)
		}
	}
	// An additional property is an error of its object, and only the text says which one it is.
	var unknown string
	if _, err := fmt.Sscanf(e.Reason, "property %q is unsupported", &unknown); err == nil {
		known := strings.Join(slices.Sorted(maps.Keys(e.Schema.Properties)), ", ")
		return api.FieldError{Field: strings.TrimPrefix(field.String()+"."+unknown, "."), Rule: "unknown", Limit: known}
	}
	return api.FieldError{Field: field.String(), Rule: e.SchemaField, Limit: limitOf(e)}
}

// limitOf returns the rule's value in the document.
func limitOf(e *openapi3.SchemaError) string {
	s := e.Schema
	switch e.SchemaField {
	case "minimum":
		return fmt.Sprint(int64(*s.Min))
	case "maximum":
		return fmt.Sprint(int64(*s.Max))
	case "minLength":
		return fmt.Sprint(s.MinLength)
	case "maxLength":
		return fmt.Sprint(*s.MaxLength)
	case "minItems":
		return fmt.Sprint(s.MinItems)
	case "maxItems":
		return fmt.Sprint(*s.MaxItems)
	case "pattern":
		return s.Pattern
	case "type":
		return strings.Join(s.Type.Slice(), ", ")
	case "enum":
		return fmt.Sprint(s.Enum)
	}
	return ""
}
