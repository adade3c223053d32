[
  inputs: ["{mix,.formatter}.exs", "{build,config,lib,test,bench,examples}/**/*.{ex,exs}"],
  line_length: 110,
  locals_without_parens: [kernel: 2, kernel: 3],
  export: [locals_without_parens: [kernel: 2, kernel: 3]]
]
