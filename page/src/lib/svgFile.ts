// A drawing of the page as an SVG file of its own: the styles that the page gave it stand in the file.

const KEPT = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linecap', 'font-family', 'font-size', 'font-style', 'text-anchor', 'opacity']

/** The drawing with the colours and fonts it has on the page now. */
export function svgFile(svg: SVGSVGElement): string {
  const copy = svg.cloneNode(true) as SVGSVGElement
  const shapes = 'path, text, rect, circle, line, polyline'
  const from = svg.querySelectorAll(shapes)
  copy.querySelectorAll<SVGElement>(shapes).forEach((element, i) => {
    const style = getComputedStyle(from[i])
    for (const name of KEPT) element.style.setProperty(name, style.getPropertyValue(name))
  })
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg')
  copy.style.setProperty('background', getComputedStyle(document.body).backgroundColor)
  return new XMLSerializer().serializeToString(copy)
}
